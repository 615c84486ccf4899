"""What a tenant must not learn: everything of another tenant, of the operators' servers and of the fleet."""

import re

from caller import Caller
from installation import EVIL

# Amounts that occur nowhere else.
RAM, FLAVOR_VCPUS, QUOTA = 17_911, 7, {"ram": 7_654_321, "cores": 654_321, "instances": 543_211}


class Foreign:
    """The names, ids and numbers of others. They grow while others work."""

    def __init__(self, operator: Caller) -> None:
        self.operator = operator
        self.texts: dict[str, str] = {}

    def add(self, what: str, *texts) -> None:
        for text in texts:
            if text not in (None, ""):
                self.texts[str(text)] = what

    def learn(self, own: set[str]) -> None:
        """Reads what operators see now; `own` are the ids of the tenant itself."""
        ask = self.operator.get
        for row in ask("compute", "/v2.1/servers/detail?all_tenants=1&limit=1000")["servers"]:
            self.add("host", row["OS-EXT-SRV-ATTR:host"])
            if row["id"] in own:
                continue
            self.add("server", row["id"], row["name"])
            self.add("project", row["tenant_id"])
            self.add("user", row["user_id"])
            # A server that has just been deleted has none any more.
            _, answer = self.operator("compute", "GET", f"/v2.1/servers/{row['id']}/os-instance-actions")
            self.add("request", *(action["request_id"] for action in answer.get("instanceActions", [])))
        for row in ask("scheduler", "/v1/hosts?limit=1000")["hosts"]:
            self.add("host", row["uuid"], row["host"], row["node"])
            self.add("cell", row["cell"])
        for row in ask("placement", "/resource_providers")["resource_providers"]:
            self.add("provider", row["uuid"], row["name"])
        for row in ask("scheduler", "/v1/aggregates")["aggregates"]:
            self.add("aggregate", row["uuid"], row["name"])
        for row in ask("compute", "/v2.1/os-services")["services"]:
            self.add("service", row["id"])
        for row in ask("compute", "/v2.1/os-migrations")["migrations"]:
            self.add("migration", row["uuid"])
        self.add("cell", "cell1", "cell2", "cell3")
        self.learn_numbers()

    def learn_numbers(self) -> None:
        """Sums over the fleet, as they are now."""
        sums: dict[str, int] = {}
        for row in self.operator.get("placement", "/resource_providers")["resource_providers"]:
            path = f"/resource_providers/{row['uuid']}"
            for name, amount in self.operator.get("placement", f"{path}/usages")["usages"].items():
                sums[name] = sums.get(name, 0) + amount
            for name, inventory in self.operator.get("placement", f"{path}/inventories")["inventories"].items():
                sums[f"{name} in all"] = sums.get(f"{name} in all", 0) + inventory["total"]
        # Small numbers occur everywhere.
        self.add("number of the fleet", *(number for number in sums.values() if number >= 10_000))

    def found_in(self, text: str, said: str = "") -> list[str]:
        """What of it is in a text, but for what the tenant said itself."""
        found = []
        for secret, what in self.texts.items():
            if secret in said or secret not in text:
                continue
            # A number or a short name counts as a word of its own, and not within a longer number or id.
            if not re.search(rf"(?<![\w.-]){re.escape(secret)}(?![\w-])", text):
                continue
            at = text.find(secret)
            found.append(f"{what} {secret!r} in …{text[max(0, at - 100):at + 60]!r}…")
        return found


class Others:
    """Another tenant and an operator, at work: builds, moves, deletions, names with markup."""

    def __init__(self, site, data: dict) -> None:
        self.site, self.data, self.admin = site, data, Caller(site, data["admin"])
        self.number, self.servers = 0, []

    def settle(self, foreign: Foreign) -> None:
        admin = self.admin
        project = self.made("identity", "/v3/projects", {"project": {"name": "zeta-secret-project", "description": "zeta-words"}})["project"]
        user = {"user": {"name": "zeta-secret-user", "password": "zeta-password-1"}}
        user = self.made("identity", "/v3/users", user)["user"]
        role = next(row for row in admin.get("identity", "/v3/roles")["roles"] if row["name"] == "member")
        status, answer = admin("identity", "PUT", f"/v3/projects/{project['id']}/users/{user['id']}/roles/{role['id']}")
        if status != 204:
            raise RuntimeError(f"role: {status} {answer}")
        foreign.add("project", project["id"], project["name"], "zeta-words")
        foreign.add("user", user["id"], user["name"], "zeta-password-1")
        admin("compute", "PUT", f"/v2.1/os-quota-sets/{project['id']}", {"quota_set": QUOTA})
        foreign.add("quota", *QUOTA.values())
        self.tenant = Caller(self.site, self.site.sign_in("zeta-secret-user", "zeta-password-1", "zeta-secret-project"))
        flavor = {"id": "zeta-flavor-id", "name": "zeta-flavor", "vcpus": FLAVOR_VCPUS, "ram": RAM, "disk": 3, "os-flavor-access:is_public": False}
        self.made("compute", "/v2.1/flavors", {"flavor": flavor})
        self.admin("compute", "POST", "/v2.1/flavors/zeta-flavor-id/action", {"addTenantAccess": {"tenant": project["id"]}})
        foreign.add("flavor", "zeta-flavor-id", "zeta-flavor", RAM)
        group = self.made("compute", "/v2.1/os-server-groups", {"server_group": {"name": "zeta-group", "policy": "affinity"}}, self.tenant)["server_group"]
        foreign.add("server group", group["id"], "zeta-group")
        image = {"name": "zeta-image", "visibility": "private", "container_format": "bare", "disk_format": "raw"}
        image = self.made("image", "/v2/images", image, self.tenant)
        foreign.add("image", image["id"], "zeta-image")
        self.ids = {
            "project_id": project["id"], "user_id": user["id"], "flavor_id": "zeta-flavor-id", "server_group_id": group["id"],
            "image_id": image["id"], "role_id": role["id"],
        }
        foreign.add("metadata", "zeta-key", "zeta-value")

    def made(self, service: str, path: str, body: dict, caller: Caller | None = None) -> dict:
        status, answer = (caller or self.admin)(service, "POST", path, body)
        if status not in (200, 201, 202):
            raise RuntimeError(f"POST {path}: {status} {answer}")
        return answer

    def work(self, foreign: Foreign, own_server: str | None) -> None:
        """A step of each: the other tenant builds and deletes, the operator moves servers, also those of the tenant."""
        self.number += 1
        server = {
            "name": f"zeta-server-{self.number}", "flavorRef": "zeta-flavor-id", "imageRef": self.data["image"], "networks": "none",
            "metadata": {"zeta-key": "zeta-value"}, "description": EVIL,
        }
        made = self.made("compute", "/v2.1/servers", {"server": server}, self.tenant)["server"]["id"]
        self.servers.append(made)
        foreign.add("number of a tenant", self.number * RAM, *((len(self.servers) - 1) * RAM,) * (len(self.servers) > 1))
        foreign.add("server", made, server["name"])
        self.ids["server_id"] = made
        if len(self.servers) > 3:
            self.tenant("compute", "DELETE", f"/v2.1/servers/{self.servers.pop(0)}")
        for moved in (self.servers[0], own_server):
            if moved:
                live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
                self.admin("compute", "POST", f"/v2.1/servers/{moved}/action", live)
        services = self.admin.get("compute", "/v2.1/os-services")["services"]
        chosen = [row for row in services if row["binary"] == "nova-compute"][self.number % 6]
        status = ("disabled", "enabled")[self.number % 2]
        body = {"status": status} | ({"disabled_reason": "zeta-reason"} if status == "disabled" else {})
        foreign.add("reason", "zeta-reason")
        self.admin("compute", "PUT", f"/v2.1/os-services/{chosen['id']}", body)
