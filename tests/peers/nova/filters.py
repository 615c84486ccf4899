#!/usr/bin/env python3
"""Ask Nova's own filters and weighers and ours about random hosts; compare.

  tests/peers/nova/filters.py                      10,000 requests, seed 1
  tests/peers/nova/filters.py --seed 7 --count 500
  tests/peers/nova/filters.py --seed 7 --case 42   one request, both sides shown

The first run makes a virtual environment with Nova 34.0.0 next to this file.
Each case has random options, aggregates with metadata, up to 8 hosts with
instances, metrics and devices, and one request.  Nova's side runs the code of
its wheel on its own HostState and RequestSpec; ours is the example program
"nova_filters" of the crate placewright-scheduler.

Compared are: each filter's verdict on each host; who is left by a random list
of filters together, with hosts that the request names or ignores; each
weigher's share of each host's weight, and the sum, to 1e-9; and the order.
Also names, flags and default options of all filters and weighers.

Where Nova's filter ends the whole request with an exception, ours must refuse
the request or the host.  NUMATopologyFilter and PciPassthroughFilter are left
out: placement decides what they ask.

The last line is "N passed, N failed", in comparisons.
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
LEFT_TO_PLACEMENT = {"NUMATopologyFilter", "PciPassthroughFilter"}
# Filters that Nova had once. They are accepted with a warning.
OF_OLDER_NOVA = {"CoreFilter", "RamFilter", "DiskFilter"}
# Weighers and options that Nova does not have.
OWN_WEIGHERS = {"TopologyWeigher", "FragmentationWeigher"}
OWN_OPTIONS = {
    "topology_weight_multiplier",
    "fragmentation_weight_multiplier",
    "fragmentation_device_class",
}
CLOSE = 1e-9


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
    parser.add_argument("--count", type=int, default=10_000, help="(default: 10000)")
    parser.add_argument("--case", type=int, help="only this request of the seed")
    parser.add_argument(
        "--program",
        type=pathlib.Path,
        help="the built example (default: build it with cargo)",
    )
    parser.add_argument("--most", type=int, default=10, help="differences to show")
    return parser.parse_args()


def build() -> pathlib.Path:
    command = ["cargo", "build", "--quiet", "--package", "placewright-scheduler"]
    subprocess.run([*command, "--example", "nova_filters"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return pathlib.Path(target) / "debug/examples/nova_filters"


class Tally:
    """Counts by what was compared, and shows the first differences."""

    def __init__(self, most: int) -> None:
        self.passed: collections.Counter = collections.Counter()
        self.failed: collections.Counter = collections.Counter()
        self.raised: collections.Counter = collections.Counter()
        self.verdicts: collections.Counter = collections.Counter()
        self.most = most

    def note_verdicts(self, what: str, nova) -> None:
        """Count how often a filter let a host pass and how often not, to show that both occur."""
        for one in nova if isinstance(nova, list) else ():
            if isinstance(one, bool):
                self.verdicts[what, one] += 1

    def note(self, what: str, is_same: bool, show) -> None:
        (self.passed if is_same else self.failed)[what] += 1
        if not is_same and self.failed.total() <= self.most:
            print(f"DIFFERENT {what}: {show()}")

    def print(self) -> int:
        for what in sorted(self.passed.keys() | self.failed.keys()):
            line = (
                f"{what:42} {self.passed[what]:7} passed {self.failed[what]:4} failed"
            )
            if yes_no := [self.verdicts[what, one] for one in (True, False)]:
                line += "   hosts: %d passed, %d refused" % tuple(yes_no) if any(yes_no) else ""
            if self.raised[what]:
                line += f"   ({self.raised[what]} where Nova raised and ours refused)"
            print(line)
        print(f"{self.passed.total()} passed, {self.failed.total()} failed")
        return 1 if self.failed else 0


def compare_names(listed: dict, tally: Tally) -> None:
    from filter_oracle import CONF, FILTERS, ROOT_OPTIONS, WEIGHERS

    ours = {
        one["name"]: (one["once"], one["rebuild"])
        for one in listed["filters"]
        if one["name"] not in OF_OLDER_NOVA
    }
    nova = {
        name: (found.run_filter_once_per_request, found.RUN_ON_REBUILD)
        for name, found in FILTERS.items()
    }
    tally.note("names and flags of filters", ours == nova, lambda: f"\n{nova}\n{ours}")
    ours = {
        one["name"]: (one["low"], one["high"])
        for one in listed["weighers"]
        if one["name"] not in OWN_WEIGHERS
    }
    nova = {name: (found.minval, found.maxval) for name, found in WEIGHERS.items()}
    tally.note("names and ends of weighers", ours == nova, lambda: f"\n{nova}\n{ours}")
    for section, values in (
        ("filter_scheduler", listed["config"]),
        ("metrics", listed["config"]["metrics"]),
    ):
        for name, value in values.items():
            if name in ("metrics", "expressions") or name in OWN_OPTIONS:
                continue
            group = CONF if name in ROOT_OPTIONS else CONF[section]
            default = getattr(group, ROOT_OPTIONS.get(name, name))
            tally.note(
                "default options", value == default, lambda: f"{name} {default} {value}"
            )


def same_verdicts(nova, ours) -> tuple[bool, bool]:
    """Whether both sides agree, and whether Nova raised anything."""
    from filter_oracle import Raised

    if isinstance(nova, Raised):
        return isinstance(ours, dict) or not all(ours), True
    raised = any(isinstance(one, Raised) for one in nova)
    if isinstance(ours, dict):
        return raised, raised
    pairs = zip(nova, ours, strict=True)
    return (
        all(not our_result if isinstance(one, Raised) else one == our_result for one, our_result in pairs),
        raised,
    )


def close(nova, ours) -> bool:
    return all(
        abs(one - our_result) <= CLOSE * max(1.0, abs(one))
        for one, our_result in zip(nova, ours, strict=True)
    )


def compare(case, nova: dict, ours: dict, tally: Tally) -> None:
    from filter_oracle import Raised

    case_option = f"--case {case.number}"
    for name, verdicts in nova["filters"].items():
        our_result = ours["filters"][name] if "filters" in ours else ours
        is_same, raised = same_verdicts(verdicts, our_result)
        tally.raised[name] += raised and is_same
        tally.note_verdicts(name, verdicts)
        tally.note(name, is_same, lambda: f"{case_option}\n  Nova {verdicts}\n  ours {our_result}")
    if "filters" not in ours:
        return
    is_same, raised = same_verdicts(nova["all_filters"], ours["all_filters"])
    if isinstance(ours["all_filters"], dict):
        # Nova stops at the first filter that leaves no host, and may not get to what ours refuses.
        is_same = raised or not any(nova["all_filters"])
    if not raised:
        show = (
            lambda: f"{case_option} {case.all_filters}\n  Nova {nova['all_filters']}\n  ours {ours['all_filters']}"
        )
        tally.note("several filters together", is_same, show)
    for name, share in nova["weighers"].items():
        our_result = ours["weighers"][name]
        if isinstance(share, Raised):
            # A host lacks a metric that is required: ours refuses the host instead.
            refused = name == "MetricsWeigher" and not all(ours["measured"])
            tally.raised[name] += refused
            tally.note(name, refused, lambda: f"{case_option}\n  Nova {share}\n  ours {our_result}")
            continue
        tally.note(
            name, close(share, our_result), lambda: f"{case_option}\n  Nova {share}\n  ours {our_result}"
        )
    if isinstance(nova["weights"], Raised):
        return
    total = nova["weights"], ours["weights"]
    tally.note(
        "weights",
        close(*total),
        lambda: f"{case_option}\n  Nova {total[0]}\n  ours {total[1]}",
    )
    order = nova["order"], ours["order"]
    tally.note(
        "order", order[0] == order[1], lambda: f"{case_option}\n  Nova {order} {total}"
    )


def input_line(case) -> str:
    return json.dumps(
        {
            "config": case.config,
            "aggregates": case.aggregates,
            "hosts": case.hosts,
            "request": case.request,
            "instance": case.instance,
            "all_filters": case.all_filters,
        }
    )


def make_case(seed: int, number: int, filters: list, weighers: list):
    from hosts_of_nova import Case

    case = Case(f"{seed}/{number}")
    case.number = number
    case.all_filters = case.several(filters, 8)
    case.config["weight_classes"] = case.random.sample(weighers, len(weighers))
    return case


def main() -> int:
    args = parse_args()
    enter_venv()
    import filter_oracle

    program = args.program or build()
    tally = Tally(args.most)
    listed = json.loads(
        subprocess.run([program, "--list"], check=True, capture_output=True).stdout
    )
    compare_names(listed, tally)
    filters = sorted(set(filter_oracle.FILTERS) - LEFT_TO_PLACEMENT)
    weighers = sorted(filter_oracle.WEIGHERS)
    numbers = [args.case] if args.case is not None else range(args.count)
    process = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    hosts = 0
    for number in numbers:
        case = make_case(args.seed, number, filters, weighers)
        hosts += len(case.hosts)
        process.stdin.write(input_line(case) + "\n")
        process.stdin.flush()
        nova = filter_oracle.answer(case, filters, weighers)
        text = process.stdout.readline()
        if not text:
            print(f"our program ended at --case {number}: {input_line(case)}")
            return 1
        ours = json.loads(text)
        if args.case is not None:
            print(json.dumps(json.loads(input_line(case)), indent=1), nova, text, sep="\n")
        compare(case, nova, ours, tally)
    print(f"{len(numbers)} requests, {hosts} hosts, seed {args.seed}")
    return tally.print()


if __name__ == "__main__":
    sys.exit(main())
