"""The identity API without a client library: what a test says is what goes over the wire."""

import json
import urllib.error
import urllib.request


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, status: int, headers: object, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = json.loads(body) if body.strip() else {}


class Api:
    """The identity API of an installation."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token = ""

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        sent = {"Content-Type": "application/json"}
        if self.token:
            sent["X-Auth-Token"] = self.token
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def issue(self, identity: dict, scope: object = None) -> str:
        """Sign in, and return the token; empty if that is refused."""
        auth = {"identity": identity} | ({"scope": scope} if scope else {})
        answer = self.call("POST", "/auth/tokens", {"auth": auth})
        return answer.headers["X-Subject-Token"] if answer.status == 201 else ""

    def sign_in(self, name: str, password: str, project: str | None = None) -> str:
        scope = project and {"project": {"name": project, "domain": {"id": "default"}}}
        return self.issue(password_of(name, password), scope)

    def create(self, what: str, **fields: object) -> dict:
        answer = self.call("POST", f"/{what}s", {what: fields})
        assert answer.status == 201, answer.body
        return answer.body[what]

    def find(self, what: str, name: str) -> str:
        rows = self.call("GET", f"/{what}s?name={name}").body[f"{what}s"]
        return rows[0]["id"]

    def grant(self, user: str, project: str, role: str, method: str = "PUT") -> None:
        path = f"/projects/{project}/users/{user}/roles/{self.find('role', role)}"
        assert self.call(method, path).status == 204


def password_of(name: str, password: str) -> dict:
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    return {"methods": ["password"], "password": {"user": user}}
