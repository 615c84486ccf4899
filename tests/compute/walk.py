#!/usr/bin/env python3
"""Use the compute API as people do: with the openstack client, and from Python.

  tests/compute/run                               against `placewright up`
  tests/compute/run --url http://127.0.0.1:8774   against a running installation

The installation must have at least four hosts that are up.  What the walk creates
it deletes again.

Creates flavors, groups, aggregates, keys and servers; lists, moves, resizes,
shelves, rebuilds and deletes.  Prints one line for each step; the last line is
"N passed, N failed".
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

import images
import installation
import openstack_client
import sdk
import tally

LIMIT_S = 180

# The client would read such variables: what it does must not depend on who starts the walk.
for name in [n for n in os.environ if n.startswith("OS_")]:
    del os.environ[name]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl a@b\n"


class Client:
    """The ``openstack`` command."""

    def __init__(self, counts: tally.Tally, config: str) -> None:
        self.counts = counts
        self.env = {**os.environ, "OS_CLIENT_CONFIG_FILE": config, "OS_CLOUD": "placewright"}

    def call(self, line: str) -> subprocess.CompletedProcess:
        return openstack_client.run(line.split(), env=self.env, limit_s=LIMIT_S)

    def run(self, line: str, want=None):
        """Runs a command that must succeed; ``want`` says whether its JSON is right."""
        done = self.call(f"{line} -f json" if want else line)
        printed = f"{done.stdout}{done.stderr}"
        if done.returncode != 0:
            self.counts.check(line, False, printed)
            return None
        if not want:
            self.counts.check(line, True, "")
            return None
        # With --wait, the progress is printed before the JSON.
        begin = min(at for at in (done.stdout.find("{"), done.stdout.find("["), 1 << 30) if at >= 0)
        try:
            value = json.loads(done.stdout[begin:])
            self.counts.check(line, bool(want(value)), printed)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            self.counts.check(line, False, f"{error!r}\n{printed}")
            return None
        return value

    def refuse(self, line: str, text: str) -> None:
        """Runs a command that must fail with this text."""
        done = self.call(line)
        fails = done.returncode != 0 and text in done.stderr
        self.counts.check(f"{line}  (refused)", fails, f"{done.stdout}{done.stderr}")

    def until(self, server: str, status: str) -> None:
        """Waits until a server has a status."""
        value = {}
        for _ in range(60):
            done = self.call(f"server show {server} -f json")
            value = json.loads(done.stdout) if done.returncode == 0 else {}
            if value.get("status") == status and not value.get("OS-EXT-STS:task_state"):
                break
            time.sleep(0.2)
        has_status = value.get("status") == status
        self.counts.check(f"server {server} becomes {status}", has_status, json.dumps(value))


def names(rows: list) -> set:
    return {row["Name"] for row in rows}


def operators(client: Client, folder: str) -> None:
    """What operators manage: flavors, key pairs, groups, quotas, services, aggregates."""
    run = client.run
    key = pathlib.Path(folder) / "key.pub"
    key.write_text(KEY)
    run("flavor create --id w1 --ram 512 --vcpus 1 --disk 1 --property a:b=c w.small",
        lambda f: f["id"] == "w1" and f["ram"] == 512)
    run("flavor create --id w2 --ram 1024 --vcpus 2 --disk 2 w.large", lambda f: f["vcpus"] == 2)
    run("flavor list", lambda rows: {"w.small", "w.large"} <= names(rows))
    run("flavor set --property hw:watchdog_action=none --description d w.small")
    run("flavor show w.small", lambda f: f["description"] == "d" and "a:b" in str(f["properties"]))
    run("flavor unset --property a:b w.small")
    client.refuse("flavor create --id w1 --ram 1 --vcpus 1 w.other", "409")
    run(f"keypair create --public-key {key} w-key", lambda k: k["name"] == "w-key")
    run("keypair list", lambda rows: "w-key" in names(rows))
    run("server group create --policy anti-affinity w-group", lambda g: g["policy"] == "anti-affinity")
    run("server group list", lambda rows: "w-group" in names(rows))
    run("server group create --policy soft-affinity"
        " --rule placewright:topology=relation=different,level=host w-rules",
        lambda g: "different" in str(g["rules"]))
    run("server group show w-rules", lambda g: "different" in str(g["rules"]))
    client.refuse("server group create --policy soft-affinity"
                  " --rule placewright:topology=relation=different,level=aisle w-wrong",
                  "no such level")
    # Other commands about quotas look for the project in Keystone; sdk.py has these.
    run("quota set --default --instances 1000")
    run("compute service list", lambda rows: len(rows) >= 4)
    hosts = run("hypervisor list", lambda rows: len(rows) >= 4) or []
    host = hosts[0]["Hypervisor Hostname"]
    run(f"hypervisor show {host}", lambda h: h["hypervisor_hostname"] == host)
    run("aggregate create --zone w-zone w-aggregate", lambda a: a["availability_zone"] == "w-zone")
    run(f"aggregate add host w-aggregate {host}", lambda a: a["hosts"] == [host])
    run("aggregate set --property ssd=true w-aggregate")
    run("aggregate show w-aggregate", lambda a: "ssd" in str(a["properties"]))
    run("availability zone list --compute", lambda rows: "w-zone" in {row["Zone Name"] for row in rows})
    other = hosts[1]["Hypervisor Hostname"]
    run(f"compute service set --disable --disable-reason w {other} nova-compute")
    run(f"compute service list --host {other}", lambda rows: rows[0]["Status"] == "disabled")
    run(f"compute service set --enable {other} nova-compute")


def servers(client: Client) -> None:
    """Servers and their moves."""
    run = client.run
    create = f"server create --flavor w1 --image {images.NAME} --nic none --wait"
    group = run("server group show w-group", lambda g: g["name"] == "w-group") or {"id": ""}
    run(f"{create} --key-name w-key --property k=v --tag t --description d w-one",
        lambda s: s["status"] == "ACTIVE" and s["name"] == "w-one")

    def two_apart(group: str, name: str, what: str) -> list:
        run(f"{create} --hint group={group} --min 2 --max 2 {name}", lambda s: s["id"])
        client.until(f"{name}-1", "ACTIVE")
        client.until(f"{name}-2", "ACTIVE")
        rows = run(f"server list --long --name {name}", lambda rows: len(rows) == 2) or []
        apart = len({row["Host"] for row in rows}) == 2
        client.counts.check(what, apart, json.dumps(rows))
        return rows

    two_apart(group["id"], "w-apart", "the members of a group are apart")
    rules = run("server group show w-rules", lambda g: g["name"] == "w-rules") or {"id": ""}
    rows = two_apart(rules["id"], "w-ruled", "the topology rules of a group hold")
    first = rows[0]["ID"] if rows else ""
    run(f"{create} --hint placewright:topology=relation=same,level=host,to={first} w-beside",
        lambda s: s["status"] == "ACTIVE")
    beside = run("server list --long --name w-beside", lambda rows: len(rows) == 1) or [{}]
    together = beside[0].get("Host") == (rows[0]["Host"] if rows else None)
    client.counts.check("the topology rule of a hint holds", together, json.dumps(beside))
    run(f"{create} --availability-zone w-zone w-zoned", lambda s: s["status"] == "ACTIVE")
    run("server list --tags t", lambda rows: names(rows) == {"w-one"})
    run("server list --limit 1 --name ^w-", lambda rows: len(rows) == 1)
    run("server list --status ERROR --name ^w-", lambda rows: rows == [])
    run("server set --name w-new --property k2=v2 --tag t2 w-one")
    run("server show w-new", lambda s: s["name"] == "w-new" and "k2" in str(s["properties"]))
    run("server unset --property k2 --tag t2 w-new")
    run("server lock --reason r w-new")
    run("server show w-new", lambda s: s["locked"] is True and s["locked_reason"] == "r")
    run("server unlock w-new")

    run("server resize --flavor w2 --wait w-new")
    client.until("w-new", "VERIFY_RESIZE")
    run("server resize revert w-new")
    client.until("w-new", "ACTIVE")
    run("server resize --flavor w2 --wait w-new")
    client.until("w-new", "VERIFY_RESIZE")
    run("server resize confirm w-new")
    client.until("w-new", "ACTIVE")
    run("server migrate --wait w-new")
    client.until("w-new", "VERIFY_RESIZE")
    run("server migration confirm w-new")
    client.until("w-new", "ACTIVE")
    run("server migrate --live-migration --wait w-new")
    client.until("w-new", "ACTIVE")
    run("server migration list", lambda rows: len(rows) >= 3)
    run("server shelve --wait w-new")
    client.until("w-new", "SHELVED_OFFLOADED")
    run("server unshelve --wait w-new")
    client.until("w-new", "ACTIVE")
    run(f"server rebuild --image {images.IMAGE} --wait w-new")
    client.until("w-new", "ACTIVE")
    events = run("server event list w-new", lambda rows: len(rows) >= 6) or [{"Request ID": ""}]
    run(f"server event show w-new {events[-1]['Request ID']}", lambda e: e["action"] == "create")
    client.refuse("server stop w-new", "501")


def clean(client: Client) -> None:
    """Deletes everything."""
    run = client.run
    hosts = client.call("hypervisor list -f json")
    host = json.loads(hosts.stdout)[0]["Hypervisor Hostname"]
    run("server delete --wait w-new w-apart-1 w-apart-2 w-zoned w-ruled-1 w-ruled-2 w-beside")
    run("server list --name ^w-", lambda rows: rows == [])
    run("server group delete w-group w-rules")
    run(f"aggregate remove host w-aggregate {host}", lambda a: a["hosts"] == [])
    run("aggregate delete w-aggregate")
    run("keypair delete w-key")
    run("flavor delete w.small w.large")
    client.refuse("flavor show w.small", "No Flavor found")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="the compute API of a running installation")
    options = parser.parse_args()
    counts = tally.Tally()
    with tempfile.TemporaryDirectory() as folder, installation.use(options.url, folder) as url:
        config = pathlib.Path(folder) / "clouds.yaml"
        others = f"http://127.0.0.1:{images.start()}"
        config.write_text(json.dumps({"clouds": {"placewright": {
            "auth_type": "admin_token",
            "auth": {"endpoint": url, "token": "admin"},
            "region_name": "RegionOne",
            "identity_api_version": "3",
            "compute_endpoint_override": f"{url}/v2.1",
            "image_endpoint_override": f"{others}/v2",
            "identity_endpoint_override": f"{others}/v3",
        }}}))
        client = Client(counts, str(config))
        operators(client, folder)
        servers(client)
        sdk.walk(counts, str(config))
        clean(client)
    return counts.finish()


if __name__ == "__main__":
    sys.exit(main())
