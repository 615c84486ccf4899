#!/usr/bin/env python3
"""Run OpenStack Placement's own HTTP test suite against another server."""

import argparse
import fnmatch
import glob
import os
import sys

sys.path.insert(
    1, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib")
)

try:
    from harness import gabbirun
    from harness import report
    from harness import runner
except ModuleNotFoundError as exc:
    sys.exit("%s; start the suite with conformance.sh" % exc)


def parse_args():
    p = argparse.ArgumentParser(
        description=__doc__,
        epilog="Exit status: 0 all tests passed, 1 some failed, "
        "2 the suite could not be run.",
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument(
        "--server-cmd",
        metavar="CMD",
        help="command line that starts the server, with the placeholders "
        "{port}, {dir} and {profile}; it is split like a shell would, "
        "but no shell runs it",
    )
    what.add_argument(
        "--url",
        help="use this server, which runs already and is empty; for "
        "one test file only",
    )
    what.add_argument(
        "--list", action="store_true", help="list the test files and stop"
    )
    p.add_argument(
        "--only",
        metavar="GLOB",
        nargs="+",
        action="extend",
        default=[],
        help="run only the files with such a name; " '".yaml" may be left out',
    )
    p.add_argument(
        "--profile",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="run only the files of these profiles",
    )
    p.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=2,
        metavar="N",
        help="files to run at the same time (default: 2)",
    )
    p.add_argument("--junit", metavar="FILE", help="write a JUnit XML file")
    p.add_argument(
        "--strict", action="store_true", help="ignore the list in harness/exclusions.py"
    )
    p.add_argument(
        "--seed", default="1", help="a word from which the UUIDs in the tests are made"
    )
    p.add_argument(
        "--keep", action="store_true", help="keep the servers' directories and logs"
    )
    t = p.add_argument_group("limits, in seconds")
    t.add_argument(
        "--start-timeout",
        type=float,
        default=30,
        metavar="S",
        help="for a server to answer (default: 30)",
    )
    t.add_argument(
        "--stop-timeout",
        type=float,
        default=5,
        metavar="S",
        help="for a server to end after SIGTERM (default: 5)",
    )
    t.add_argument(
        "--request-timeout",
        type=float,
        default=10,
        metavar="S",
        help="for one request (default: 10)",
    )
    t.add_argument(
        "--file-timeout",
        type=float,
        default=180,
        metavar="S",
        help="for one test file (default: 180)",
    )
    t.add_argument(
        "--total-timeout",
        type=float,
        default=1800,
        metavar="S",
        help="for the whole run (default: 1800)",
    )
    p.add_argument(
        "--port-base",
        type=int,
        metavar="PORT",
        help="first port to try (default: ports that no other test gets meanwhile)",
    )
    args = p.parse_args()
    if not (args.server_cmd or args.url or args.list):
        p.error("one of --server-cmd, --url and --list is needed")
    if args.server_cmd and "{port}" not in args.server_cmd:
        p.error("--server-cmd has no {port}")
    args.jobs = max(1, args.jobs)
    return p, args


def choose(args):
    runs = [
        runner.FileRun(path)
        for path in sorted(glob.glob(os.path.join(gabbirun.gabbits_dir(), "*.yaml")))
    ]
    if args.only:

        def wanted(name):
            return any(
                fnmatch.fnmatchcase(name, pattern + suffix)
                for pattern in args.only
                for suffix in ("", ".yaml")
            )

        runs = [r for r in runs if wanted(r.name)]
    if args.profile:
        runs = [r for r in runs if r.profile in args.profile]
    return runs


def main():
    parser, args = parse_args()
    runs = choose(args)
    if not runs:
        parser.error("no test file matches")
    if args.list:
        report.listing(runs)
        print("%d files, %d tests" % (len(runs), sum(len(r.planned) for r in runs)))
        return 0
    if args.url and len(runs) != 1:
        parser.error(
            "--url is for one test file, and %d match; "
            "choose one with --only" % len(runs)
        )

    finished = []

    def on_done(run):
        finished.append(run)
        report.progress(len(finished), len(runs), run)

    interrupted = False
    try:
        runner.run_all(runs, args, on_done)
    except KeyboardInterrupt:
        interrupted = True
        for run in runs:
            run.error = run.error or "interrupted"
            run.fail_missing_tests()

    report.failures(runs)
    print()
    report.table(runs)
    if args.junit:
        report.junit(runs, args.junit)
    if interrupted:
        print("interrupted")
    print(report.last_line(runs))
    return 0 if all(r.ok for r in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
