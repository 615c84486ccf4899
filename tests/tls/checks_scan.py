"""What sslyze finds wrong with a TLS port."""

import json
import pathlib
import subprocess
from typing import Any

from site_tls import NAMES, Site

HERE = pathlib.Path(__file__).resolve().parent
WEAK = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")
GOOD = ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")


def scan(site: Site) -> None:
    """sslyze finds no weak protocol or cipher, and no known fault"""
    venv = HERE / ".venv"
    made = subprocess.run(
        [HERE.parent / "lib" / "make-venv", venv, HERE / "requirements.txt"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        print(f"left out: sslyze cannot be installed here: {made.stderr.strip().splitlines()[-1:]}")
        return
    for kind in ("ec", "rsa"):
        site.identity = site.ca.issue(f"scanned-{kind}", NAMES, kind=kind)
        with site.control() as control:
            judge(site, venv, control.port, kind)


def sslyze(venv: pathlib.Path, out: pathlib.Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """The result of a scan, and what was printed."""
    done = subprocess.run(
        [venv / "bin" / "python", "-m", "sslyze", f"--json_out={out}", *arguments],
        capture_output=True, text=True, check=False, timeout=250,
    )
    server = json.loads(out.read_text())["server_scan_results"][0]
    return server["scan_result"] or {}, done.stdout + done.stderr


def judge(site: Site, venv: pathlib.Path, port: int, kind: str) -> None:
    out = site.folder / f"sslyze-{kind}.json"
    result, printed = sslyze(venv, out, "--mozilla_config=intermediate", f"localhost:{port}")
    early, _ = sslyze(venv, out, "--early_data", f"localhost:{port}")
    if not site.check(f"{kind}: sslyze reaches the server", bool(result), printed):
        return
    result["tls_1_3_early_data"] = early["tls_1_3_early_data"]

    def taken(name: str) -> list[str]:
        accepted = result[name]["result"]["accepted_cipher_suites"]
        return [one["cipher_suite"]["name"] for one in accepted]

    for name in WEAK:
        found = taken(f"{name}_cipher_suites")
        site.check(f"{kind}: no {name}", not found, found)
    for name in ("tls_1_2", "tls_1_3"):
        found = taken(f"{name}_cipher_suites")
        weak = [one for one in found if not one.endswith(GOOD) or (name == "tls_1_2" and "ECDHE" not in one)]
        site.check(f"{kind}: {name} with {len(found)} suites, none weak", bool(found) and not weak, weak)
    for name, fault in (
        ("heartbleed", "is_vulnerable_to_heartbleed"),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection"),
        ("tls_compression", "supports_compression"),
        ("tls_1_3_early_data", "supports_early_data"),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos"),
    ):
        part = result[name]["result"]
        site.check(f"{kind}: not {fault}", part is not None and part[fault] is False, part)
    robot = result["robot"]["result"]
    site.check(f"{kind}: no ROBOT", robot is None or "NOT_VULNERABLE" in robot["robot_result"], robot)
    # The certificates are not of a public authority. That may be the only complaint.
    _, _, compliance = printed.partition("COMPLIANCE AGAINST")
    complaints = [line.strip() for line in compliance.splitlines() if line.strip().startswith("* ")]
    odd = [line for line in complaints if not line.startswith("* certificate_path_validation")]
    site.check(f"{kind}: as Mozilla's intermediate configuration wants it", bool(compliance) and not odd, compliance)


CHECKS = {"scan": scan}
