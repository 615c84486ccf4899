"""A reader of the page's stream, whose connection breaks at random."""

import http.client
import json
import random
import threading
import time

KINDS = ("cells", "zones", "aggregates", "traits", "shapes")


class Follower(threading.Thread):
    """The hosts as the stream told them; as docs/ui.md describes it."""

    def __init__(self, site, token: str, seed: float) -> None:
        super().__init__(daemon=True)
        self.site, self.token, self.rng = site, token, random.Random(seed)
        self.lock, self.is_over, self.breaks = threading.Lock(), False, 0
        self.reset()

    def reset(self) -> None:
        self.place, self.names, self.live = None, {}, {}
        self.values = {kind: [] for kind in KINDS}

    def run(self) -> None:
        while not self.is_over:
            connection = http.client.HTTPConnection("127.0.0.1", self.site.ports["ui"], timeout=15)
            try:
                after = f"?after={self.place}" if self.place else ""
                connection.request("GET", f"/ui/api/fleet{after}", headers={"X-Auth-Token": self.token})
                self.read(connection.getresponse(), time.monotonic() + self.rng.random() * 6)
            except (http.client.HTTPException, OSError):
                pass
            finally:
                connection.close()
                self.breaks += 1
            time.sleep(self.rng.random() * 0.5)

    def read(self, answer, until: float) -> None:
        block: list[str] = []
        while time.monotonic() < until and not self.is_over:
            line = answer.readline().decode().rstrip("\n")
            if line:
                block.append(line)
                continue
            if not block and answer.isclosed():
                return
            self.take(block)
            block = []

    def take(self, block: list[str]) -> None:
        fields = dict(line.split(": ", 1) for line in block if ": " in line and not line.startswith(":"))
        with self.lock:
            match fields.get("event"):
                case "reset":
                    self.reset()
                case "end":
                    self.place = fields["id"]
                case None if "data" in fields:
                    self.apply(json.loads(fields["data"]))

    def apply(self, data: dict) -> None:
        # An event without an end after it comes again after a break, with the same values: they are numbered anew then.
        for kind in KINDS:
            self.values[kind] += data.get(kind, [])
        for slot, *names in data["hosts"]:
            self.names[slot] = names
        for slot, *numbers in data["live"]:
            self.live[slot] = numbers
        for slot in data["gone"]:
            self.names.pop(slot, None)
            self.live.pop(slot, None)

    def has(self, marker: str, marked: int) -> bool:
        with self.lock:
            for uuid, _, _, _, _, _, _, shape in self.names.values():
                if uuid == marker:
                    return self.values["shapes"][shape][0][1] == marked
        return False

    def told(self) -> dict:
        found = {}
        with self.lock:
            for slot, (uuid, host, node, _, zone, aggregates, traits, shape) in self.names.items():
                condition, _, consumers, *used = self.live[slot]
                amounts = {
                    name: [capacity, total - reserved, amount]
                    for (name, capacity, total, reserved), amount in zip(self.values["shapes"][shape], used)
                }
                found[uuid] = {
                    "host": host, "node": node or host, "condition": condition, "consumers": consumers, "amounts": amounts,
                    "zone": self.values["zones"][zone], "aggregates": sorted(self.values["aggregates"][aggregates]),
                    "traits": sorted(self.values["traits"][traits]),
                }
        return found

    def check(self, fleet, marker: str, marked: int) -> tuple[str, bool, str]:
        """Whether the stream has told what the APIs say."""
        end = time.monotonic() + 20
        while not self.has(marker, marked) and time.monotonic() < end:
            time.sleep(0.02)
        told = self.told()
        expected = {
            host.uuid: {
                "host": host.host, "node": host.node, "condition": host.condition, "consumers": len(host.consumers),
                "amounts": host.amounts, "zone": host.zone, "aggregates": sorted(host.aggregates), "traits": sorted(host.traits),
            }
            for host in fleet.hosts
        }
        differ = [f"{uuid}: stream {told.get(uuid)}, APIs {expected.get(uuid)}" for uuid in {*told, *expected} if told.get(uuid) != expected.get(uuid)]
        return "the stream after breaks has the hosts of the APIs", not differ, "\n".join(differ[:5])
