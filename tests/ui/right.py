#!/usr/bin/env python3
"""The figures on Fleet, Capacity and Why beside those of the APIs, at the same sequence.

Writers change hosts, trees, inventories, claims, traits, aggregates, the topology, servers and moves at random, while the
page is open in Chromium and takes these changes from its stream. Again and again the writers pause between two changes. When
the page has what they did, random figures are read from its tables and compared with what the public APIs say. The
sequence of the journal (`GET /placewright/v1/status`) is read before and after each, and what was read while it moved, or
while a host went down because it was silent, counts for nothing. The stream is also followed by a reader of its own, whose connection breaks at random; it has to end with the same
hosts. The last line is "N passed, N failed".
"""

import argparse
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]

import launch  # noqa: E402
from browser import Browser  # noqa: E402
from caller import Caller  # noqa: E402
from changes import Gate, Writer  # noqa: E402
from figures import Fleet, conditions, new_uuid, reported  # noqa: E402
from follower import Follower  # noqa: E402
from installation import running, settle  # noqa: E402
from tally import Tally  # noqa: E402
from views import Views  # noqa: E402

HOSTS, WRITERS, SETTLE_S = 24, 3, 60


class Rounds:
    def __init__(self, site, data: dict, tally: Tally, rng: random.Random) -> None:
        self.site, self.data, self.tally, self.rng = site, data, tally, rng
        self.ask = Caller(site, data["admin"])
        self.gate, self.marked = Gate(), 0
        self.browser = Browser()
        self.follower = Follower(site, data["admin"], rng.random())
        self.views = Views(self.browser, self.ask, self.data, rng)
        self.writers = [Writer(site, data, self.gate, number) for number in range(1, WRITERS + 1)]

    def start(self) -> None:
        browser = self.browser
        browser.open(self.site.page)
        browser.sign_in("admin", self.site.password("placewright"))
        if not browser.until_text("live", "#live"):
            raise RuntimeError("the page is not live")
        browser.driver.set_script_timeout(60)
        self.views.prepare()
        self.make_marker()
        self.follower.start()
        for writer in self.writers:
            writer.start()

    def make_marker(self) -> None:
        """A provider that only this thread changes: who sees its change also sees every change before."""
        self.marker = self.data["marker"]
        self.ask("placement", "POST", "/resource_providers", {"name": "marker", "uuid": self.marker})
        self.mark()

    def mark(self) -> None:
        self.marked += 1
        path = f"/resource_providers/{self.marker}"
        generation = self.ask.get("placement", path)["generation"]
        body = {"resource_provider_generation": generation, "inventories": {"VCPU": {"total": self.marked}}}
        status, answer = self.ask("placement", "PUT", f"{path}/inventories", body)
        if status != 200:
            raise RuntimeError(f"marker: {status} {answer}")

    def sequence(self) -> int:
        return self.ask.get("placement", "/placewright/v1/status")["applied"]

    def at_rest(self) -> int:
        """Waits until builds and moves under way have come to their end, and returns the sequence."""
        end = time.monotonic() + SETTLE_S
        last, since = self.sequence(), time.monotonic()
        while time.monotonic() - since < 0.25:
            if time.monotonic() > end:
                raise RuntimeError("the installation does not come to rest")
            time.sleep(0.02)
            now = self.sequence()
            if now != last:
                last, since = now, time.monotonic()
        return last

    def round(self, checks: int) -> None:
        opened = self.views.stay()
        time.sleep(self.rng.random() * 2)
        self.gate.close()
        try:
            self.at_rest()
            told = reported(self.ask)
            self.mark()
            sequence = self.at_rest()
            shown = self.browser.until(lambda: self.views.has_marker(self.marker, self.marked), 20)
            if not self.tally.check(f"the page has entry {sequence}", shown, "the page lags by more than 20 s"):
                return
            fleet = Fleet(self.ask)
            looks = [lambda: self.views.check_open(fleet, opened), lambda: self.follower.check(fleet, self.marker, self.marked)]
            looks += [lambda: self.views.check(fleet)] * checks
            for look in looks:
                name, ok, detail = look()
                # Hosts also go down with time alone, because they were silent for a minute.
                if self.sequence() != sequence or conditions(reported(self.ask)) != conditions(told):
                    return
                self.tally.check(f"entry {sequence}: {name}", ok, detail)
        finally:
            self.gate.open()

    def end(self) -> None:
        self.gate.is_over = True
        self.gate.open()
        for writer in self.writers:
            writer.join(60)
            self.tally.check("a writer came to its end", writer.error is None and not writer.is_alive(), repr(writer.error))
        self.follower.is_over = True
        self.browser.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=None, help="the placewright binary (default: the release build)")
    parser.add_argument("--checks", type=int, default=1000, help="how many figures are compared at least")
    parser.add_argument("--a-round", type=int, default=20, help="how many of them at one sequence")
    parser.add_argument("--seed", type=int, default=None, help="repeats the same choices")
    parser.add_argument("--short", action="store_true", help="100 checks only")
    options = parser.parse_args()
    wanted = 100 if options.short else options.checks
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    tally = Tally()
    with launch.scratch("right") as folder, running(options.program or launch.program(), folder, HOSTS) as site:
        data = settle(site)
        data["aggregates"] = [new_uuid() for _ in range(8)]
        data["marker"] = new_uuid()
        rounds = Rounds(site, data, tally, random.Random(seed))
        try:
            rounds.start()
            while tally.passed + tally.failed < wanted and tally.failed < 20:
                rounds.round(options.a_round)
        finally:
            rounds.end()
        print(f"{sum(writer.changes for writer in rounds.writers)} changes; {rounds.follower.breaks} breaks of the stream")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
