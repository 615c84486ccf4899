#!/usr/bin/env python3
"""Translate random requests with Nova's own code and with ours; compare.

  tests/peers/nova/translate.py                     5,000 requests, seed 1
  tests/peers/nova/translate.py --seed 7 --count 50000
  tests/peers/nova/translate.py --seed 7 --case 42  one request, both sides shown

The first run makes a virtual environment with Nova 34.0.0 next to this file.
Each request has a random flavor, image, ports, PCI aliases, device profile,
destination, zone and pre-filter options.  Nova's side runs what its API, its
pre-filters and its scheduler run: numa_get_constraints, from_components,
process_reqspec, resources_from_request_spec and to_querystring; what they ask
of other services is answered from the request.  Ours is the example program
"translate" of the crate placewright-scheduler.  Compared are the query, the
second query of pinned requests, the guest's NUMA cells, and whether the
request is refused.

Known to be different on purpose, and checked as such:
  * what Placement would refuse is refused before it is asked;
  * an image property without a standard trait is passed over on its own;
  * the trait of an IOMMU model is the one that hosts report;
  * a zone that no aggregate carries is refused unless it is the default one.

The last line is "N passed, N failed", in requests.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def enter_venv() -> None:
    """Go on in the virtual environment that has Nova."""
    venv = HERE / ".venv"
    if pathlib.Path(sys.prefix) == venv:
        return
    make = ROOT / "tests/lib/make-venv"
    subprocess.run([make, venv, HERE / "requirements.txt"], check=True)
    os.execv(venv / "bin/python", [venv / "bin/python", __file__, *sys.argv[1:]])


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--count", type=int, default=5000, help="(default: 5000)")
    parser.add_argument("--case", type=int, help="only this request of the seed")
    parser.add_argument(
        "--program",
        type=pathlib.Path,
        help="the built example (default: build it with cargo)",
    )
    parser.add_argument("--most", type=int, default=10, help="differences to show")
    return parser.parse_args()


def program(given: pathlib.Path | None) -> pathlib.Path:
    if given:
        return given
    build = ["cargo", "build", "--quiet", "-p", "placewright-scheduler"]
    subprocess.run([*build, "--example", "translate"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug/examples/translate"


def ask_ours(path: pathlib.Path, cases: list[dict]) -> list[dict]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(
        [path], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(case: dict, nova: dict, ours: dict) -> list[str]:
    """What is not as it should be; empty for equal answers."""
    refused = ours.get("refused")
    if nova.get("raised"):
        if not refused:
            return [f"Nova raises {nova['raised']}, ours does not refuse"]
        return []
    if nova.get("zone_unknown"):
        if not refused or refused["field"] != "availability_zone":
            return ["a zone that does not exist is not refused"]
        return []
    if "query" not in ours:
        return [f"ours refuses: {refused}"]
    found = []
    for key in ("query", "fallback", "numa"):
        if nova.get(key) != ours.get(key):
            found.append(f"{key}\n    nova {nova.get(key)}\n    ours {ours.get(key)}")
    if nova["unaskable"] and not refused:
        found.append(f"ours would ask what Placement refuses: {nova['unaskable']}")
    if refused and not nova["unaskable"]:
        found.append(f"ours refuses what Placement would answer: {refused}")
    return found


def main() -> int:
    enter_venv()
    args = parse_args()
    sys.path.insert(0, str(HERE))
    import oracle
    import requests_of_nova

    numbers = [args.case] if args.case is not None else range(args.count)
    cases = [requests_of_nova.case(args.seed, number) for number in numbers]
    answers = ask_ours(program(args.program), [oracle.for_ours(case) for case in cases])
    assert len(answers) == len(cases), "the program gave up"
    tally: collections.Counter[str] = collections.Counter()
    failed = 0
    for number, case, ours in zip(numbers, cases, answers):
        nova = oracle.translate(case)
        found = differences(case, nova, ours)
        if args.case is not None:
            print(json.dumps({"case": case, "nova": nova, "ours": ours}, indent=1))
        if found:
            failed += 1
            if failed <= args.most:
                print(f"DIFFERENT  --seed {args.seed} --case {number}")
                for text in found:
                    print(f"  {text}")
        tally.update(oracle.features(nova, ours))
    print(f"{len(cases)} requests of seed {args.seed}:")
    for name, times in sorted(tally.items()):
        print(f"  {times:7} {name}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
