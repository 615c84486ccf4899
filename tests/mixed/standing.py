"""Servers and groups that are made under the old release, and must look the same under the new one.

They have a value in every field that the API shows again, so that what an older release wrote of
them is read in full.
"""

import time
from typing import Any

from compute import IMAGE, Compute, is_settled

WAIT_S = 30
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f standing"
TOPOLOGY = "placewright:topology"
# The fields that change without a request.
VOLATILE = {"updated", "progress"}


class Standing:
    """The servers and groups of one installation."""

    def __init__(self, client: Compute, flavor: str) -> None:
        self.flavor = flavor
        apart = {"name": "apart", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}
        rules = {TOPOLOGY: "relation=different,level=host,strength=soft,weight=7"}
        near = {"name": "topology", "policy": "soft-affinity", "rules": rules}
        self.groups = [
            client.must("POST", "/os-server-groups", {"server_group": group})["server_group"]["id"]
            for group in (apart, near)
        ]
        key = {"name": "key", "type": "ssh", "public_key": PUBLIC_KEY}
        client.must("POST", "/os-keypairs", {"keypair": key})
        self.servers: list[str] = []
        for number, group in enumerate(self.groups):
            self._boot(client, f"rich-{number}", {"group": group})
        self._boot(client, "together", {}, {"min_count": 3, "max_count": 3})
        rule = {"relation": "different", "level": "host", "to": [self.servers[0]]}
        self._boot(client, "ruled", {TOPOLOGY: [rule]})
        self.before = self.shown(client)

    def _boot(self, client: Compute, name: str, hints: dict, more: dict | None = None) -> None:
        server = {
            **{"name": name, "flavorRef": self.flavor, "imageRef": IMAGE, "networks": "none"},
            **{"metadata": {"a": "b", "quote": '"}}'}, "tags": ["one", "two"]},
            **{"description": "stays \u2603", "user_data": "IyEvYmluL3NoCg==", "key_name": "key"},
            **{"config_drive": True, "accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7"},
            **{"security_groups": [{"name": "web"}], "adminPass": "s", "OS-DCF:diskConfig": "MANUAL"},
            **(more or {}),
        }
        client.must("POST", "/servers", {"server": server, "os:scheduler_hints": hints})
        end = time.monotonic() + WAIT_S
        while True:
            found = [s for s in client.servers() if s["id"] not in self.servers]
            if found and all(map(is_settled, found)):
                break
            if time.monotonic() > end:
                raise RuntimeError(f"standing servers do not settle: {found}")
            time.sleep(0.1)
        # The API lists the youngest server first; the order within one request does not matter.
        self.servers += [server["id"] for server in found]

    def shown(self, client: Compute) -> dict[str, Any]:
        """What the API shows of the servers and groups."""
        everything: dict[str, Any] = {}
        for server in self.servers:
            shown = client.must("GET", f"/servers/{server}")["server"]
            everything[server] = {k: v for k, v in shown.items() if k not in VOLATILE}
            everything[f"{server} user_data"] = shown.get("OS-EXT-SRV-ATTR:user_data")
        for group in self.groups:
            everything[group] = client.must("GET", f"/os-server-groups/{group}")["server_group"]
        return everything

    def changes(self, client: Compute) -> list[str]:
        """What the API shows otherwise than before."""
        now = self.shown(client)
        return [
            f"{key}: {value!r}\n is now {now[key]!r}"
            for key, value in self.before.items()
            if now[key] != value
        ]
