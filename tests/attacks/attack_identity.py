"""Forged tokens, rights that one does not have, and costly requests at the installation's own identity API."""

import base64
import json
import statistics
import time
from typing import Any

from case import Answer, Caller, Case, Site
from ports import free_port

BODY_BYTES_MAX = 65_536


class Cloud:
    """An installation with its own identity, and tokens of its two users."""

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self.port = port
        # The program writes YAML that is simple enough to be read line by line, so that no library is needed.
        self.passwords: dict[str, str] = {}
        user = ""
        for line in (site.folder / "state/clouds.yaml").read_text().splitlines():
            name, _, value = line.strip().partition(": ")
            if name == "username":
                user = value.strip("\"'")
            elif name == "password":
                self.passwords[user] = value.strip("\"'")

    def sign_in(self, user: str, password: str, project: str | None = None) -> tuple[Answer, str]:
        """Asks for a token; returns the answer, and the token or nothing."""
        login: dict[str, Any] = {"name": user, "domain": {"id": "default"}, "password": password}
        auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": login}}}
        if project:
            auth["scope"] = {"project": {"name": project, "domain": {"id": "default"}}}
        caller = Caller(self.port, "")
        body = json.dumps({"auth": auth}).encode()
        caller.connection.request("POST", "/v3/auth/tokens", body, {"Content-Type": "application/json"})
        response = caller.connection.getresponse()
        answer = Answer(response.status, response.read(), 0)
        caller.close()
        return answer, response.headers.get("X-Subject-Token") or ""

    def caller(self, token: str) -> Caller:
        return self.site.caller(token, port=self.port)

    def ask(self, token: str, method: str, path: str, body: Any = None) -> Answer:
        caller = self.caller(token)
        answer = caller(method, path, body, {"X-Roles": "admin"})
        caller.close()
        return answer


def _forgeries(token: str, other: str) -> dict[str, str]:
    """Changed tokens, by what was changed."""
    padded = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    changed = {
        "nothing but a dot": ".",
        "cut short": token[:-1],
        "cut in half": token[: len(token) // 2],
        "longer": token + "A",
        "twice": token + token,
        "of another installation": other,
        "a token that names no algorithm": f"{padded}.{padded}.",
        "the name of the administrator's token without identity": "admin",
        "with a space within": f"{token[:20]} {token[20:]}",
    }
    for place in range(0, len(token), max(1, len(token) // 40)):
        letter = "A" if token[place] != "A" else "B"
        changed[f"another letter at {place}"] = token[:place] + letter + token[place + 1 :]
    return changed


def _forged_tokens(case: Case, cloud: Cloud, token: str, other: str) -> None:
    ports = {
        "identity": (cloud.port, "/v3/users"),
        "compute": (cloud.site.compute, "/v2.1/servers"),
        "placement": (cloud.site.placement, "/resource_providers"),
        "scheduler": (cloud.site.scheduler, "/v1/hosts"),
    }
    for service, (port, path) in ports.items():
        wrong = []
        for name, forged in _forgeries(token, other).items():
            caller = cloud.site.caller(forged, port=port)
            answer = caller("GET", path)
            caller.close()
            if answer.status != 401:
                wrong.append(f"{name}: {answer}")
        case.check(f"{service}: no changed token is accepted", not wrong, wrong[:3])


def _rights(case: Case, cloud: Cloud, admin: str, demo: str) -> None:
    """Everything that only an administrator may do, tried by a member."""
    rows = cloud.ask(admin, "GET", "/v3/users").json()["users"]
    users = {row["name"]: row["id"] for row in rows}
    projects = {
        row["name"]: row["id"] for row in cloud.ask(admin, "GET", "/v3/projects").json()["projects"]
    }
    roles = {row["name"]: row["id"] for row in cloud.ask(admin, "GET", "/v3/roles").json()["roles"]}
    assignment = f"/users/{users['demo']}/roles/{roles['admin']}"
    credential = {"name": "stolen", "roles": [{"id": roles["admin"]}]}
    attempts: list[tuple[str, str, Any]] = [
        ("GET", "/v3/users", None),
        ("POST", "/v3/users", {"user": {"name": "mallory", "password": "x" * 12}}),
        ("PATCH", f"/v3/users/{users['admin']}", {"user": {"password": "taken-over-1"}}),
        ("PATCH", f"/v3/users/{users['demo']}", {"user": {"name": "admin2"}}),
        ("DELETE", f"/v3/users/{users['admin']}", None),
        ("POST", f"/v3/users/{users['admin']}/password", {"user": {"password": "y" * 12, "original_password": "z"}}),
        ("POST", "/v3/projects", {"project": {"name": "evil"}}),
        ("PATCH", f"/v3/projects/{projects['admin']}", {"project": {"enabled": False}}),
        ("DELETE", f"/v3/projects/{projects['admin']}", None),
        ("POST", "/v3/roles", {"role": {"name": "root"}}),
        ("DELETE", f"/v3/roles/{roles['admin']}", None),
        ("PUT", f"/v3/roles/{roles['member']}/implies/{roles['admin']}", None),
        ("PUT", f"/v3/projects/{projects['demo']}{assignment}", None),
        ("PUT", f"/v3/domains/default{assignment}", None),
        ("PUT", f"/v3/system{assignment}", None),
        ("GET", "/v3/role_assignments", None),
        ("GET", f"/v3/users/{users['admin']}/application_credentials", None),
        ("POST", f"/v3/users/{users['admin']}/application_credentials", {"application_credential": credential}),
        ("POST", f"/v3/users/{users['demo']}/application_credentials", {"application_credential": credential}),
    ]
    before = _everything(cloud, admin)
    for method, path, body in attempts:
        answer = cloud.ask(demo, method, path, body)
        ok = answer.status in (400, 401, 403, 404)
        name = path.replace(users["admin"], "ADMIN").replace(users["demo"], "DEMO")
        case.check(f"a member may not {method} {name[:60]}", ok, answer)
    case.check("and nothing has changed", _everything(cloud, admin) == before)


def _everything(cloud: Cloud, admin: str) -> list[Any]:
    paths = ("/v3/users", "/v3/projects", "/v3/roles", "/v3/role_assignments", "/v3/role_inferences")
    return [cloud.ask(admin, "GET", path).json() for path in paths]


def _odd_bodies(case: Case, cloud: Cloud, admin: str) -> None:
    deep = b'{"auth":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    long_name = json.dumps({"user": {"name": "n" * 60_000}}).encode()
    many = json.dumps({"user": {"name": "m", **{f"k{n}": n for n in range(4000)}}}).encode()
    bodies: list[tuple[str, str, bytes, set[int]]] = [
        ("nested 20,000 times", "/v3/auth/tokens", deep, {400}),
        ("no JSON", "/v3/auth/tokens", b"\xff\xfe{", {400}),
        ("longer than is allowed", "/v3/auth/tokens", b" " * (BODY_BYTES_MAX + 1), {413}),
        ("a name of 60,000 letters", "/v3/users", long_name, {400}),
        ("a user with 4,000 further fields", "/v3/users", many, {201, 400}),
        ("a number where a text is wanted", "/v3/users", b'{"user": {"name": 7}}', {400}),
        ("a name with a line's end", "/v3/users", b'{"user": {"name": "a\\nb"}}', {201, 400}),
        ("no object", "/v3/projects", b"[1, 2]", {400}),
    ]
    for name, path, body, expected in bodies:
        answer = cloud.ask(admin, "POST", path, body)
        ok = answer.status in expected and answer.seconds < 1
        case.check(f"a body: {name}", ok, answer)


def _names_stay_secret(case: Case, cloud: Cloud) -> None:
    """Whether a name exists shows neither in the answer nor in its time."""
    answers: dict[str, list[tuple[bytes, int | None]]] = {}
    times: dict[str, list[float]] = {}
    for number in range(6):
        for user in ("admin", f"nobody{number}"):
            began = time.perf_counter()
            answer, token = cloud.sign_in(user, f"wrong-{number}", "admin")
            kind = "known" if user == "admin" else "unknown"
            times.setdefault(kind, []).append(time.perf_counter() - began)
            answers.setdefault(kind, []).append((answer.body, answer.status))
            if token:
                case.check("a wrong password gives no token", False, user)
    same = set(answers["known"]) == set(answers["unknown"]) and len(set(answers["known"])) == 1
    case.check("a wrong password and an unknown name have the same answer", same, answers)
    known, unknown = (statistics.median(times[kind]) for kind in ("known", "unknown"))
    ratio = known / unknown
    case.check("and it takes as long", 0.5 < ratio < 2, f"{known:.4f} s and {unknown:.4f} s")


def _revocations(case: Case, cloud: Cloud, short: bool) -> None:
    """One user who makes tokens and revokes them, without end."""
    _, first = cloud.sign_in("demo", cloud.passwords["demo"], "demo")
    rounds = 1_200 if short else 20_000
    caller = cloud.caller(first)
    auth: dict[str, Any] = {"auth": {"identity": {"methods": ["token"], "token": {"id": first}}}}
    auth["auth"]["scope"] = {"project": {"name": "demo", "domain": {"id": "default"}}}
    body = json.dumps(auth).encode()
    before = cloud.site.memory_mib()
    seen: dict[int | None, int] = {}
    for _ in range(rounds):
        caller.connection.request("POST", "/v3/auth/tokens", body, {"Content-Type": "application/json"})
        response = caller.connection.getresponse()
        response.read()
        token = response.headers.get("X-Subject-Token")
        if not token:
            seen[response.status] = seen.get(response.status, 0) + 1
            continue
        answer = caller("DELETE", "/v3/auth/tokens", None, {"X-Subject-Token": token})
        seen[answer.status] = seen.get(answer.status, 0) + 1
    caller.close()
    grown = cloud.site.memory_mib() - before
    print(f"   {rounds} tokens revoked: {seen}, {grown:.1f} MiB", flush=True)
    case.check("revoking without end is bounded", set(seen) <= {204, 401, 403, 409, 413, 429}, seen)
    case.check("and costs 20 MiB at most", grown < 20, f"{grown:.1f} MiB")
    _, token = cloud.sign_in("admin", cloud.passwords["admin"], "admin")
    case.check("others sign in meanwhile", bool(token))


def run(case: Case) -> None:
    other_port, port = free_port(), free_port()
    options = {"auth_strategy": "identity", "image_listen": f"127.0.0.1:{free_port()}",
               "network_listen": f"127.0.0.1:{free_port()}"}
    with case.up(hosts=0, identity_listen=f"127.0.0.1:{other_port}", **options) as site:
        foreign = Cloud(site, other_port)
        _, other = foreign.sign_in("admin", foreign.passwords["admin"], "admin")
        case.check("the other installation gives tokens", bool(other))
    with case.up(hosts=0, identity_listen=f"127.0.0.1:{port}", **options) as site:
        cloud = Cloud(site, port)
        _, admin = cloud.sign_in("admin", cloud.passwords["admin"], "admin")
        _, demo = cloud.sign_in("demo", cloud.passwords["demo"], "demo")
        case.check("both users sign in", bool(admin and demo))
        _forged_tokens(case, cloud, admin, other)
        _rights(case, cloud, admin, demo)
        _odd_bodies(case, cloud, admin)
        _revocations(case, cloud, case.short)
        _names_stay_secret(case, cloud)
