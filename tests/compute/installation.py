"""An installation to talk to: a running one, or `placewright up` for the time of a walk."""

import contextlib
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(1, str(ROOT / "tests/lib"))

import launch
from ports import free_port

UP_S = 60
HOSTS = 12


def hosts_up(url: str) -> int:
    request = urllib.request.Request(
        f"{url}/v2.1/os-services", headers={"X-Auth-Token": "admin"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().count(b'"up"')
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return 0


@contextlib.contextmanager
def use(url: str | None, folder: str):
    """Yields the address of the compute API, and stops the installation at the end if it was started here."""
    if url:
        yield url.rstrip("/").removesuffix("/v2.1")
        return
    program = str(launch.program())
    port = free_port()
    with open(pathlib.Path(folder) / "up.log", "wb") as log:
        process = subprocess.Popen(
            [
                program, "up", "--auth-strategy", "noauth2", "--folder", f"{folder}/state", "--hosts", str(HOSTS),
                "--placement-listen", f"127.0.0.1:{free_port()}", "--compute-listen", f"127.0.0.1:{port}",
            ],
            stdout=log, stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            end = time.monotonic() + UP_S
            while hosts_up(url) < HOSTS:
                if process.poll() is not None or time.monotonic() > end:
                    text = (pathlib.Path(folder) / "up.log").read_text()
                    raise SystemExit(f"placewright up did not come up:\n{text}")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)
