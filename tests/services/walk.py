"""The placement clients that other services carry, method by method, against Placewright and the reference.

The newest packages of Neutron (neutron-lib), Cyborg, Blazar and Watcher are installed from PyPI without the services'
own dependencies; Nova's is the release of tests/peers/nova, in the virtual environment there.  Each client makes the same calls to both servers, on what is there and on what is not; each call has
to return or raise the same, and each request that it sends has to get the same answer, as tests/differential compares
answers.  The last line is "N passed, N failed".

Ironic carries no client of placement: Nova reports its nodes.  --short leaves Nova out, whose installation is large.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[1:1] = [str(TESTS / "lib"), str(TESTS / "differential")]

import launch  # noqa: E402
import normal  # noqa: E402
from catalog import Catalog  # noqa: E402
from request import Request  # noqa: E402
from tally import Tally  # noqa: E402
from wire import Response  # noqa: E402

SERVICES = ("neutron", "cyborg", "blazar", "watcher")
NOVA = TESTS / "peers/nova"
LIMIT_S = 120
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
REQUEST_ID = re.compile(r"req-[0-9a-f-]{36}")


def python_of(service: str) -> pathlib.Path:
    """The Python in whose virtual environment a client is installed."""
    if service != "nova":
        return pathlib.Path(sys.executable)
    subprocess.run([TESTS / "lib/make-venv", NOVA / ".venv", NOVA / "requirements.txt"], check=True)
    return NOVA / ".venv/bin/python"


class Transcript:
    """What came of the calls of one client to one server."""

    def __init__(self, service: str, placement_url: str) -> None:
        catalog = Catalog(placement_url)
        words = [str(python_of(service)), "-W", "ignore", str(HERE / "recorder.py"), service, placement_url, str(catalog.port)]
        # Clients send sets as lists, in the order of their hashes.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        try:
            ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        finally:
            catalog.close()
        if ended.returncode:
            raise SystemExit(f"the client of {service} could not be driven:\n{ended.stderr[-3000:]}")
        # Some packages print while they are imported.
        printed = json.loads(self._without_made_ids(ended.stdout.splitlines()[-1], placement_url))
        self.calls = printed["calls"]
        self.methods = printed["methods"]

    @staticmethod
    def _without_made_ids(text: str, placement_url: str) -> str:
        """The text with what each server makes up by itself numbered in the order in which it appears."""
        text = REQUEST_ID.sub("req-…", text.replace(placement_url, "http://placement"))
        numbers: dict[str, str] = {}

        def number(found: re.Match) -> str:
            # What the calls name are UUIDs of version 5, and those are the same on both sides.
            if found[0][14] == "5":
                return found[0]
            return numbers.setdefault(found[0], f"00000000-0000-4000-8000-{len(numbers):012}")

        return UUID.sub(number, text)


def response_of(exchange: dict) -> Response:
    headers = [(name, value) for name, value in exchange["headers"]]
    return Response(exchange["status"], headers, exchange["body"].encode(), 0.0, False)


def differences(ours: dict, reference: dict) -> list[str]:
    """How what came of a call differs, in words."""
    found = []
    sent = [[one["method"], one["path"], one["sent"]] for one in ours["wire"]]
    sent_to_reference = [[one["method"], one["path"], one["sent"]] for one in reference["wire"]]
    if sent != sent_to_reference:
        found.append(f"requests: {sent_to_reference} and {sent}")
    else:
        for mine, other in zip(ours["wire"], reference["wire"], strict=True):
            request = Request(other["method"], other["path"], body=other["sent"].encode() or None)
            different = normal.compare(request, response_of(other), response_of(mine), None)
            if different:
                found.append(f"{other['method']} {other['path']}: {different}")
    kind, *rest = ours["outcome"]
    other_kind, *other_rest = reference["outcome"]
    if kind == other_kind == "raised":
        same = rest[0] == other_rest[0] and (found or normal.words(rest[1]) == normal.words(other_rest[1]))
    else:
        same = kind == other_kind and normal.with_sets(rest) == normal.with_sets(other_rest)
    if not same:
        found.append(f"outcome: {reference['outcome']} and {ours['outcome']}")
    return found


def compare(service: str, ours: Transcript, reference: Transcript, tally: Tally) -> None:
    called = {call["name"] for call in reference.calls}
    left_out = sorted(set(ours.methods) - called)
    tally.check(f"{service}: every method is called", not left_out, str(left_out))
    counts: dict[str, int] = {}
    for mine, other in zip(ours.calls, reference.calls, strict=True):
        name = other["name"]
        counts[name] = counts.get(name, 0) + 1
        found = differences(mine, other)
        outcome = other["outcome"][1] if other["outcome"][0] == "raised" else "returned"
        tally.check(f"{service}: {name}, call {counts[name]} ({outcome})", not found, "\n".join(found)[:3000])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*SERVICES, "nova"), action="append", help="only this service; may be repeated")
    parser.add_argument("--short", action="store_true", help="without Nova, for CI")
    arguments = parser.parse_args()
    services = arguments.only or (SERVICES if arguments.short else (*SERVICES, "nova"))
    tally = Tally()
    requests = methods = 0
    with launch.scratch("services") as folder:
        with (
            launch.running("ours", folder / "ours") as ours,
            launch.running("reference", folder / "reference") as reference,
        ):
            for service in services:
                mine, other = Transcript(service, ours.url), Transcript(service, reference.url)
                compare(service, mine, other, tally)
                requests += sum(len(call["wire"]) for call in mine.calls)
                methods += len(mine.methods)
    print(f"{methods} methods of {len(services)} clients, {requests} requests to each server")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
