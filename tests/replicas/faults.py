"""Faults under load, round after round: how long writes are away, and whether all answers can be explained."""

import argparse
import dataclasses
import random
import signal
import time
from collections.abc import Callable

import servers
import tally
from installation import Installation
from layout import ENGINE_MEMBERS
from network import Network
from recorder import CLIENTS, Recorder, check

# For how long there is load before a fault, and after writes are back.
BEFORE_S = (0.4, 1.2)
AFTER_S = (0.4, 0.8)
# The longest that writes may be away before the rounds are given up.
AWAY_MAX_S = 60.0
# A kind of fault that misses its bar in fewer rounds than this is repeated so often: of these the 95th percentile leaves
# out the longest, as a bar at p95 means it.
ROUNDS_TO_JUDGE = 21


@dataclasses.dataclass
class Fault:
    """A fault that was made: since when writes are awaited, what mends it, and a replica that need not write."""

    since_ns: int
    mend: Callable[[], None]
    without: int | None = None


class Faults:
    """What can be done to an installation; each method makes one fault."""

    def __init__(self, site: Installation, rng: random.Random, network: Network | None = None) -> None:
        self.site = site
        self.rng = rng
        self.network = network

    def _leader(self) -> str:
        """The replica that leads. Before any log tells, it is the first one, which started first."""
        return f"replica-{self.site.leader() or 0}"

    def _others(self, name: str) -> list[str]:
        replicas = [f"replica-{number}" for number in range(self.site.replicas)]
        return [other for other in replicas if other != name]

    def killed(self) -> Fault:
        """The leader gets SIGKILL."""
        self.site.send(self._leader(), signal.SIGKILL)
        return Fault(time.monotonic_ns(), self.site.start_ended)

    def stopped(self) -> Fault:
        """The leader gets SIGSTOP, and goes on later."""
        leader = self._leader()
        self.site.send(leader, signal.SIGSTOP)
        return Fault(time.monotonic_ns(), lambda: self.site.send(leader, signal.SIGCONT))

    def follower_killed(self) -> Fault:
        """A replica that does not lead gets SIGKILL."""
        self.site.send(self.rng.choice(self._others(self._leader())), signal.SIGKILL)
        return Fault(time.monotonic_ns(), self.site.start_ended)

    def engine_leader_killed(self) -> Fault:
        """The engine's leader gets SIGKILL. The time counts from the failover, if a supervisor makes one."""
        end = time.monotonic() + AWAY_MAX_S
        while (number := self.site.engine_leader()) is None and time.monotonic() < end:
            time.sleep(0.05)
        self.site.send(f"engine-{number}", signal.SIGKILL)
        if self.site.engine == "postgresql":
            while self.site.engine_leader() == number and time.monotonic() < end:
                time.sleep(0.01)
        return Fault(time.monotonic_ns(), self.site.start_ended)

    def engine_stopped(self) -> Fault:
        """All members of the engine get SIGKILL, and are started again."""
        for number in range(ENGINE_MEMBERS):
            self.site.send(f"engine-{number}", signal.SIGKILL)
        time.sleep(self.rng.uniform(0.2, 1.5))
        self.site.start_ended()
        return Fault(time.monotonic_ns(), lambda: None)

    def cut_from_engine(self) -> Fault:
        """The leader is cut off from the engine."""
        return self._cut(lambda _: ["engine"])

    def cut_from_replicas(self) -> Fault:
        """The leader is cut off from all other replicas."""
        return self._cut(self._others)

    def cut_from_one(self) -> Fault:
        """The leader is cut off from one of the other replicas."""
        return self._cut(lambda leader: [self.rng.choice(self._others(leader))])

    def _cut(self, from_whom: Callable[[str], list[str]]) -> Fault:
        if self.network is None:
            raise servers.ServerError("cuts need network namespaces")
        leader = self._leader()
        self.network.cut(leader, from_whom(leader))
        number = int(leader.removeprefix("replica-"))
        return Fault(time.monotonic_ns(), self.network.mend, number)


def add_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    parser.add_argument("engine", choices=["etcd", "postgresql"], metavar="ENGINE", help="etcd|postgresql")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"(default: {rounds})")
    parser.add_argument("--replicas", type=int, default=3, help="(default: 3)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help=f"(default: {CLIENTS})")
    parser.add_argument(
        "--pause-ms",
        type=float,
        default=5.0,
        help="how long a client rests between two requests, on average (default: 5)",
    )
    parser.add_argument("--seed", default="1", help="of requests and moments (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the files")


def percentile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Rounds:
    """Rounds of faults on one installation, with one history."""

    def __init__(
        self,
        args: argparse.Namespace,
        site: Installation,
        counts: tally.Tally,
        network: Network | None = None,
    ) -> None:
        self.site = site
        self.counts = counts
        self.rng = random.Random(f"{args.seed}/faults")
        self.faults = Faults(site, self.rng, network)
        self.history = site.folder / "history.jsonl"
        self.recorder = Recorder(
            site.addresses(), self.history, args.seed, args.clients, args.pause_ms / 1000
        )
        # How long writes were away, by the kind of fault.
        self.away_s: dict[str, list[float]] = {}

    def run(
        self,
        kinds: list[str],
        rounds: int,
        operations: int = 0,
        bars: dict[str, tuple[float, float]] | None = None,
    ) -> None:
        """Rounds of the kinds in turn: so many of each, and on until so many operations are recorded. A kind that then
        misses its bar goes on until there are enough rounds to judge by."""
        number = 0
        with self.recorder:
            while number < rounds * len(kinds) or self.recorder.count() < operations:
                if not self._round(number + 1, kinds[number % len(kinds)]):
                    return
                number += 1
            for kind, bar in (bars or {}).items():
                while len(self.away_s.get(kind, [])) in range(1, ROUNDS_TO_JUDGE) and not self._meets(kind, bar):
                    if not self._round(number + 1, kind):
                        return
                    number += 1

    def _meets(self, kind: str, bar: tuple[float, float]) -> bool:
        """Whether a kind of fault meets its bar: seconds at p50 and at p95."""
        values = self.away_s[kind]
        return percentile(values, 0.5) <= bar[0] and percentile(values, 0.95) <= bar[1]

    def _round(self, number: int, kind: str) -> bool:
        """One round; whether there can be another one."""
        time.sleep(self.rng.uniform(*BEFORE_S))
        name = f"round {number}: {kind.replace('_', ' ')}"
        try:
            fault = getattr(self.faults, kind)()
            away = self.recorder.wait_for_write_after(fault.since_ns, fault.without, AWAY_MAX_S)
            if away is None:
                said = f"not within {AWAY_MAX_S:g} s\n{self.site.log_tails()}"
                self.counts.check(f"{name}: writes are back", False, said)
                return False
            time.sleep(self.rng.uniform(*AFTER_S))
            fault.mend()
        except servers.ServerError as error:
            said = f"{error}\n{self.site.log_tails()}"
            self.counts.check(f"{name}: everything runs again", False, said)
            return False
        self.away_s.setdefault(kind, []).append(away)
        self.counts.check(f"{name}: writes are back after {away:.2f} s", True)
        self.recorder.renew()
        return True

    def hold_to(self, bars: dict[str, tuple[float, float]]) -> None:
        """Print for each kind how long writes were away, and check it: seconds at p50 and at p95."""
        for kind, values in self.away_s.items():
            p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
            bar50, bar95 = bars[kind]
            text = (
                f"{kind.replace('_', ' ')}: writes are back after {p50:.2f} s at p50 (bar {bar50:g}),"
                f" {p95:.2f} s at p95 (bar {bar95:g}), {max(values):.2f} s at most; {len(values)} rounds"
            )
            self.counts.check(text, self._meets(kind, bars[kind]))

    def check_history(self) -> tuple[bool, str]:
        """Whether the history is linearizable, and what the checker says."""
        broken = self.recorder.broken
        text = "every answer is one that the API may give"
        self.counts.check(text, not broken, "\n".join(broken[:5]))
        is_linearizable, said = check(self.history)
        print(said.splitlines()[-1] if said else "", flush=True)
        return is_linearizable, said

    def finish(self, bars: dict[str, tuple[float, float]]) -> None:
        """Hold the rounds to their bars, and check the history."""
        self.hold_to(bars)
        is_linearizable, said = self.check_history()
        count, unknown = self.recorder.count(), self.recorder.unknown
        text = f"{count} operations are linearizable, with {unknown} writes in doubt"
        self.counts.check(text, is_linearizable, said)
