#!/usr/bin/env python3
"""Have Nova's own scheduler decide, and print how long its parts take as JSON.

  tests/peers/nova/scheduler.py > nova.json
  placewright bench seeds --nova nova.json
  tests/peers/nova/scheduler.py --hosts 3,100 --rounds 2

The first run makes a virtual environment with Nova 34.0.0 next to this file.
Nova's SchedulerManager runs in this process: one worker, with the filters and
weighers that are on by default.  Its databases are SQLite files with Nova's
schema, in a temporary folder.  Stand-ins are the HTTP connection to placement,
which answers with the candidates and takes the claims, and the message queue.
The time in the stand-ins is not counted.

The hosts and the request are those of "placewright bench seeds", in two fleets:
"nearly full", as its first experiments have it, and "empty".  Requests come one
after the other, 31 in a round; the first round does not count.  It takes some
five minutes.

Nova asks placement for 1,000 candidates at most.  Empty fleets with more hosts
are measured with this limit and without it.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIMIT = 1_000
REQUESTS = 31
# With fewer there is no room for a round.
HOSTS_MIN = 3
HOSTS_MAX = 100_000


def enter_venv() -> None:
    """Go on in the virtual environment that has Nova."""
    venv = HERE / ".venv"
    if pathlib.Path(sys.prefix) == venv:
        return
    make = ROOT / "tests/lib/make-venv"
    made = subprocess.run([make, venv, HERE / "requirements.txt"])
    if made.returncode != 0:
        sys.exit(
            f"Nova cannot be installed into {venv}, as said above. It needs Python 3.11 or newer"
            " (PYTHON names another one) and a package index that pip can reach."
        )
    os.execv(venv / "bin/python", [venv / "bin/python", __file__, *sys.argv[1:]])


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse_args() -> argparse.Namespace:
    def sizes(text: str) -> list[int]:
        sizes = [int(one) for one in text.split(",")]
        if not all(HOSTS_MIN <= one <= HOSTS_MAX for one in sizes):
            raise argparse.ArgumentTypeError(f"from {HOSTS_MIN} to {HOSTS_MAX} hosts")
        return sizes

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--hosts",
        type=sizes,
        default=[3, 100, 1_000, 10_000],
        metavar="N[,N…]",
        help="(default: 3,100,1000,10000)",
    )
    parser.add_argument(
        "--rounds", type=positive, default=10, help="at most (default: 10)"
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=30,
        help="a fleet's measurement ends after this and three decisions (default: 30)",
    )
    return parser.parse_args()


def setups(hosts: list[int]):
    """The fleets to measure: hosts, whether they are empty, and Nova's limit of candidates."""
    for number in hosts:
        # As in the experiments: three hosts are empty, and of a larger fleet one host in ten
        # has room for one instance. Fewer than 310 hosts have no room for a round.
        if number // 10 >= REQUESTS:
            yield number, False, LIMIT
        yield number, True, LIMIT
        if number > LIMIT:
            yield number, True, number


def main() -> None:
    args = parse_args()
    enter_venv()
    import scheduler_of_nova

    # Nova's databases are global: each fleet has a process of its own.
    processes = multiprocessing.get_context("spawn")
    rows = []
    for hosts, is_empty, limit in setups(args.hosts):
        fleet = "empty" if is_empty else "nearly full"
        print(f"{hosts} hosts, {fleet}, limit {limit}", file=sys.stderr)
        with processes.Pool(1) as process:
            measured = (hosts, is_empty, limit, args, REQUESTS)
            rows.append(process.apply(scheduler_of_nova.measure, measured))
    report = {**scheduler_of_nova.described(), "figures": rows}
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
