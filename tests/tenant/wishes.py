"""The costliest requests that a member of a project can think of, and ways to make them worse."""

import dataclasses
import functools
import json
import random
import string
import urllib.parse
import uuid
from typing import Any

IMAGE = "70ace000-0000-4000-8000-000000000001"
KINDS = ("server", "group", "key")
# More than any route takes from a member.
BODY_BYTES_MAX = 320 << 10


@dataclasses.dataclass(eq=False)
class Wish:
    """One request; ``cost`` is what it took lately, in seconds."""

    api: str
    method: str
    path: str
    body: Any = None
    cost: float = 0.0
    is_known: bool = False
    # Whether the server closes the connection after it.
    closes: bool = False

    @functools.cached_property
    def route(self) -> tuple[str, ...]:
        """The kind of request: API, method, path without query, and action."""
        action = ""
        if self.path.endswith("/action") and isinstance(self.body, dict):
            action = next(iter(self.body), "")
        return self.api, self.method, self.path.partition("?")[0], action

    @functools.cached_property
    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    @functools.cached_property
    def path_kinds(self) -> list[str]:
        return [kind for kind in KINDS if "{%s}" % kind in self.path]

    def data(self, host: str, token: str, project: dict[str, list[str]]) -> bytes:
        """The bytes to send; ``{server}``, ``{group}`` and ``{key}`` become something that exists."""
        path = self.path
        for kind in self.path_kinds:
            known = project[kind]
            chosen = random.randrange(len(known)) if known else None
            name = "none" if chosen is None else known[chosen]
            if self.method == "DELETE" and chosen is not None:
                known.pop(chosen)
            path = path.replace("{%s}" % kind, name)
        head = (
            f"{self.method} {path} HTTP/1.1\r\nHost: {host}\r\nX-Auth-Token: {token}\r\n"
            "X-Roles: member,reader\r\nAccept: application/json\r\n"
            "OpenStack-API-Version: compute 2.96, placement 1.39\r\n"
        )
        content = self.content
        if content is None:
            return (head + "\r\n").encode("latin-1", "replace")
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        return head.encode("latin-1", "replace") + content


def text(length: int) -> str:
    return "".join(random.choices(string.ascii_letters, k=length))


def server(**more: Any) -> dict[str, Any]:
    body = {
        "name": text(200),
        "flavorRef": "small",
        "imageRef": IMAGE,
        "networks": "none",
        **more,
    }
    return {"server": body}


def pattern() -> str:
    return random.choice(
        [
            "([a-q][^u-z]{13}x|$)",
            "(.*a){12}",
            "(a|b|ab)*c{1,200}",
            "[a-z]{100}.*[a-z]{100}",
            "^(([a-z])+.)+[A-Z]([a-z])+$",
            "\\w{50,100}$",
        ]
    )


def seeds() -> list[Wish]:
    """A request for every route that a member may reach, each as costly as one can guess."""
    quote = urllib.parse.quote
    many = "&".join(f"name={quote(pattern())}" for _ in range(200))
    groups = "&".join(f"resources{n}=VCPU:1" for n in range(1, 100)) + "&group_policy=none"
    mappings = [
        {"uuid": text(2000), "source_type": "volume", "destination_type": "volume", "boot_index": n}
        for n in range(100)
    ]
    hints = {text(30): text(1000) for _ in range(100)}
    metadata = {text(200): text(250) for _ in range(128)}
    c, p, s = "compute", "placement", "scheduler"
    wishes = [
        Wish(c, "GET", f"/v2.1/servers?{many}"),
        Wish(c, "GET", f"/v2.1/servers/detail?name={quote(pattern())}&limit=1000"),
        Wish(c, "GET", "/v2.1/servers/detail?sort_key=display_name&sort_dir=desc&limit=1000"),
        Wish(c, "GET", "/v2.1/servers/detail?" + "&".join(f"sort_key={k}" for k in
             ("display_name", "created_at", "vm_state", "uuid", "task_state") * 20)),
        Wish(c, "GET", "/v2.1/servers/detail?tags=" + ",".join(text(60) for _ in range(50))),
        Wish(c, "GET", "/v2.1/servers/detail?description=" + quote(pattern())),
        Wish(c, "GET", "/v2.1/servers/detail?changes-since=2020-01-01T00:00:00Z"),
        Wish(c, "GET", "/v2.1/servers/detail?all_tenants=1"),
        Wish(c, "GET", "/v2.1/servers/{server}"),
        Wish(c, "GET", "/v2.1/servers/{server}/os-instance-actions"),
        Wish(c, "GET", "/v2.1/servers/{server}/metadata"),
        Wish(c, "GET", "/v2.1/servers/{server}/tags"),
        Wish(c, "GET", "/v2.1/servers/{server}/ips"),
        Wish(c, "GET", "/v2.1/flavors/detail"),
        Wish(c, "GET", "/v2.1/limits"),
        Wish(c, "GET", "/v2.1/os-keypairs"),
        Wish(c, "GET", "/v2.1/os-server-groups"),
        Wish(c, "GET", "/v2.1/os-availability-zone"),
        Wish(c, "GET", "/v2.1/extensions"),
        Wish(c, "GET", "/"),
        Wish(c, "GET", "/healthz"),
        Wish(c, "POST", "/v2.1/servers", server(max_count=1000)),
        Wish(c, "POST", "/v2.1/servers", server(max_count=1000, min_count=1000, metadata=metadata)),
        Wish(c, "POST", "/v2.1/servers", server(block_device_mapping_v2=mappings, max_count=1000)),
        Wish(c, "POST", "/v2.1/servers", server(user_data="QUFB" * 16000)),
        Wish(c, "POST", "/v2.1/servers", server(user_data="QUFB" * 16000, max_count=1000)),
        Wish(c, "POST", "/v2.1/servers", {**server(), "os:scheduler_hints": hints}),
        Wish(c, "POST", "/v2.1/servers", {**server(max_count=500), "os:scheduler_hints":
             {"different_host": [str(uuid.uuid4()) for _ in range(2000)]}}),
        Wish(c, "POST", "/v2.1/servers", server(tags=[text(60) for _ in range(50)])),
        Wish(c, "POST", "/v2.1/servers", server()),
        Wish(c, "PUT", "/v2.1/servers/{server}", {"server": {"name": text(255)}}),
        Wish(c, "PUT", "/v2.1/servers/{server}/metadata", {"metadata": metadata}),
        Wish(c, "PUT", "/v2.1/servers/{server}/tags", {"tags": [text(60) for _ in range(50)]}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"rebuild": {"imageRef": IMAGE,
             "metadata": metadata, "user_data": "QUFB" * 16000}}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"resize": {"flavorRef": "large"}}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"confirmResize": None}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"shelve": None}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"unshelve": None}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"os-stop": None}),
        Wish(c, "POST", "/v2.1/servers/{server}/action", {"lock": {"locked_reason": text(255)}}),
        Wish(c, "DELETE", "/v2.1/servers/{server}"),
        Wish(c, "POST", "/v2.1/os-keypairs", {"keypair": {"name": text(200),
             "public_key": "ssh-rsa " + "A" * 16000}}),
        Wish(c, "POST", "/v2.1/os-server-groups", {"server_group": {"name": text(200),
             "policy": "anti-affinity", "rules": {"max_server_per_host": 3}}}),
        Wish(c, "DELETE", "/v2.1/os-server-groups/{group}"),
        Wish(c, "DELETE", "/v2.1/os-keypairs/{key}"),
        Wish(c, "POST", "/v2.1/servers", [[[[["deep"] * 100]]]] * 1000),
        Wish(p, "GET", f"/allocation_candidates?{groups}"),
        Wish(p, "GET", "/allocation_candidates?resources=VCPU:1"),
        Wish(p, "GET", "/resource_providers"),
        Wish(p, "GET", "/usages?project_id=evil"),
        Wish(p, "GET", "/traits"),
        Wish(p, "GET", "/placewright/v1/explain?resources=VCPU:3000"),
        Wish(p, "GET", "/placewright/v1/changes"),
        Wish(p, "GET", "/placewright/v1/openapi.json"),
        Wish(p, "GET", "/"),
        Wish(p, "PUT", f"/allocations/{uuid.uuid4()}", {"allocations": {}}),
        Wish(s, "POST", "/v1/destinations", {"request": {"flavor": {"vcpus": 1}}}),
        Wish(s, "GET", "/v1/hosts?limit=10000"),
        Wish(s, "GET", "/v1/topology"),
    ]
    return wishes


def mutated(wish: Wish) -> Wish:
    """A copy of a request with one change: something is longer, repeated, removed or replaced."""
    # Below, values are replaced and not changed in place, because the copy shares the body.
    wish = Wish(wish.api, wish.method, wish.path, wish.body, wish.cost)
    if wish.body is not None and random.random() < 0.8:
        before, wish.body = wish.body, changed(wish.body, 3)
        if len(wish.content or b"") > BODY_BYTES_MAX:
            # It would be refused for its length, and cost this program more than the server.
            return Wish(wish.api, wish.method, wish.path, before, wish.cost)
    elif "?" in wish.path:
        path, _, query = wish.path.partition("?")
        parts = query.split("&")
        action = random.randrange(4)
        if action == 0 and len(parts) < 500:
            parts *= 2
        elif action == 1:
            parts.append(random.choice(parts))
        elif action == 2:
            key, _, value = random.choice(parts).partition("=")
            parts.append(f"{key}={(value * 2)[:4000]}")
        else:
            parts.pop(random.randrange(len(parts)))
        wish.path = (path + "?" + "&".join(parts))[:60000]
    return wish


def changed(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and value and depth:
        key = random.choice(list(value))
        return {**value, key: changed(value[key], depth - 1)}
    if isinstance(value, list):
        return (value * 2)[:5000] if random.random() < 0.7 else value[: len(value) // 2]
    if isinstance(value, str):
        return random.choice([(value * 2)[:100_000], text(36), "", value[: len(value) // 2]])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice([value * 2, value + 1, 0, -1, 2**31, 2**63, 1000])
    return random.choice([{}, [], "", 1, None])
