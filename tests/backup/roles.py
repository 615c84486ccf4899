"""Control and cells, backed up while servers are booted, and put back."""

import pathlib
import re
import threading
import time

import tally
from compute import Compute, is_settled, describe_server
from installation import Installation
from settle import wait_until_settled
from backups import Backup, digests, placewright

CELLS = 2
HOSTS = 5
SETTLE_S = 90


class Roles:
    """An installation whose stores are backed up and restored."""

    def __init__(self, counts: tally.Tally, folder: pathlib.Path, servers: int) -> None:
        self.counts = counts
        self.folder = folder
        self.servers = servers
        self.site = Installation(folder, CELLS, HOSTS)
        # Control's last, so that control knows everything that is in the backups of the cells.
        self.stores = [f"cell-{number}" for number in range(CELLS)] + ["control"]

    def run(self) -> None:
        try:
            self.site.start()
            client = Compute(self.site.compute)
            self.flavor = client.flavor("small", 1, 128)
            client.connection.close()
            self.all_roles()
            self.control_alone()
        finally:
            self.site.stop()

    def boot(self, count: int, name: str) -> list[str]:
        client = Compute(self.site.compute)
        made = [client.create(f"{name}-{number}", self.flavor) for number in range(count)]
        client.connection.close()
        assert all(status == 202 for status, _ in made), made
        return [body["server"]["id"] for _, body in made]

    def back_up(self, name: str) -> dict[str, Backup]:
        return {
            store: Backup(self.folder / store, self.folder / f"{name}-{store}.backup")
            for store in self.stores
        }

    def put_back(self, backups: dict[str, Backup]) -> list[str]:
        """Stops all roles and restores these stores; returns the digests that are not as expected."""
        self.site.stop()
        complaints = []
        for name, backup in backups.items():
            store = self.folder / name
            expected = digests(store, [backup.end])[backup.end]
            old = self.folder / f"{backup.file.name}-old"
            store.rename(old)
            sequence, digest = backup.restore(store)
            if (sequence, digest) != (backup.end, expected):
                complaints.append(f"{name}: {sequence} {digest}, not {backup.end} {expected}")
        return complaints

    def audit(self, *options: str) -> str:
        url = f"http://127.0.0.1:{self.site.placement}"
        try:
            return placewright("audit", "--url", url, *options)
        except Exception as found:  # the command ends with 1 if it finds something
            return str(found)

    def repair(self, what: str, *options: str) -> None:
        """Repairs until the audit finds nothing; prints the kinds of what it found first."""
        end = time.monotonic() + SETTLE_S
        kinds: dict[str, int] = {}
        text = self.audit()
        for kind in re.findall(r"^([a-z_]+) +[0-9a-f]{8}-", text, re.MULTILINE):
            kinds[kind] = kinds.get(kind, 0) + 1
        print(f"{what}: the audit found {kinds or 'nothing'}", flush=True)
        while "everything adds up" not in text and time.monotonic() < end:
            self.audit("--repair", *options)
            time.sleep(1)
            text = self.audit()
        self.counts.check(f"{what}: repaired, the audit finds nothing", "everything adds up" in text, text)

    def check_goes_on(self, what: str) -> None:
        """Checks that new servers can be booted."""
        made = self.boot(5, "after")
        self.wait_for_servers(f"{what}, new servers", set(made))

    def wait_for_servers(self, what: str, wanted: set[str]) -> dict[str, dict]:
        """Waits until the wanted servers are active; returns all servers by id."""
        client = Compute(self.site.compute)
        end = time.monotonic() + SETTLE_S
        while True:
            found = {server["id"]: server for server in client.servers()}
            lost = sorted(wanted - found.keys())
            bad = [
                describe_server(server)
                for server in found.values()
                if server["id"] in wanted
                and (not is_settled(server) or server["status"] != "ACTIVE")
            ]
            if not (lost or bad) or time.monotonic() > end:
                break
            time.sleep(0.3)
        client.connection.close()
        states: dict[str, int] = {}
        for server in found.values():
            states[server["status"]] = states.get(server["status"], 0) + 1
        print(f"{what}: {states}", flush=True)
        self.counts.check(
            f"{what}: servers of before are there and active",
            not lost and not bad,
            "\n".join([*(f"lost {one}" for one in lost), *bad][:8]),
        )
        return found

    def all_roles(self) -> None:
        what = "all roles put back to backups made while servers were booted"
        before = set(self.boot(self.servers, "before"))
        self.wait_for_servers("before", before)
        booting = threading.Thread(target=self.boot, args=(self.servers, "meanwhile"))
        booting.start()
        backups = self.back_up("all")
        booting.join()
        wait_until_settled(self.site.compute, set(), SETTLE_S)
        self.boot(3, "later")
        wait_until_settled(self.site.compute, set(), SETTLE_S)
        complaints = self.put_back(backups)
        self.counts.check(
            f"{what}: each store has the digest that its journal knows",
            not complaints,
            "\n".join(complaints),
        )
        self.site.start()
        self.wait_for_servers(what, before)
        self.repair(what, "--destroy-unknown-guests")
        self.wait_for_servers(f"{what}, repaired", before)
        self.check_goes_on(what)

    def control_alone(self) -> None:
        what = "control alone put back"
        before = set(self.boot(self.servers, "old"))
        self.wait_for_servers("before", before)
        backups = {"control": self.back_up("alone")["control"]}
        newer = set(self.boot(self.servers, "newer"))
        client = Compute(self.site.compute)
        wait_until_settled(self.site.compute, set(), SETTLE_S)
        gone = set(sorted(before)[:3])
        for server in gone:
            client("DELETE", f"/servers/{server}")
        client.connection.close()
        wait_until_settled(self.site.compute, gone, SETTLE_S)
        complaints = self.put_back(backups)
        self.counts.check(f"{what}: the digest is known", not complaints, "\n".join(complaints))
        self.site.start()
        kept = before - gone
        found = self.wait_for_servers(what, kept)
        print(f"{what}: {len(newer & found.keys())} of {len(newer)} newer servers are known", flush=True)
        self.repair(what)
        # Control, restored to before the deletions, has to find out that these servers are deleted.
        wait_until_settled(self.site.compute, gone, SETTLE_S)
        left = sorted(gone & self.wait_for_servers(f"{what}, repaired", kept).keys())
        self.counts.check(f"{what}: servers deleted since are gone again", not left, "\n".join(left))
        self.check_goes_on(what)
