"""A service behind `keystonemiddleware` accepts the tokens of `placewright up`, and refuses all others.

The service is a WSGI function that says who calls.  The middleware asks the identity API about each token, as it would
ask Keystone.  The last line is "N passed, N failed".
"""

import argparse
import base64
import datetime
import io
import sys
import time

import installation
from api import Api
from keystonemiddleware import auth_token

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402

Asked = tuple[int, dict[str, str]]


def service(environ: dict, start_response: object) -> list[bytes]:
    """Says with which identity it is called."""
    start_response("200 OK", [("X-Said-" + key, environ.get("HTTP_X_" + key.upper(), "")) for key in SAID])
    return [b""]


SAID = ["User_Name", "Project_Name", "Roles"]


class Behind:
    """The service behind the middleware."""

    def __init__(self, url: str, password: str) -> None:
        options = {
            "auth_type": "password", "auth_url": url, "www_authenticate_uri": url,
            "username": "other", "password": password, "project_name": "service",
            "user_domain_id": "default", "project_domain_id": "default",
            "service_token_roles_required": "true", "token_cache_time": "-1",
        }
        self.application = auth_token.filter_factory({}, **options)(service)

    def ask(self, token: str, service_token: str = "") -> Asked:
        environ = {
            "REQUEST_METHOD": "GET", "PATH_INFO": "/", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(),
            "wsgi.errors": sys.stderr, "wsgi.version": (1, 0), "wsgi.multithread": False,
            "wsgi.multiprocess": False, "wsgi.run_once": False, "SCRIPT_NAME": "", "QUERY_STRING": "",
        }
        if token:
            environ["HTTP_X_AUTH_TOKEN"] = token
        if service_token:
            environ["HTTP_X_SERVICE_TOKEN"] = service_token
        said: list[Asked] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            said.append((int(status.split()[0]), dict(headers)))

        list(self.application(environ, start_response))
        return said[-1]


def forged(token: str, index: int) -> str:
    """The token with one changed bit."""
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[index % len(raw)] ^= 1
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Walk:
    """Tokens of all kinds, one after the other."""

    def __init__(self, cloud: installation.Installation, tally: Tally) -> None:
        self.tally = tally
        self.cloud = cloud
        self.api = Api(cloud.auth_url)
        self.api.token = self.api.sign_in("admin", cloud.password("placewright"), "admin")
        self.project = self.api.create("project", name="blue")["id"]
        self.ada = self.api.create("user", name="ada", password="first")["id"]
        self.api.grant(self.ada, self.project, "member")
        other = self.api.create("user", name="other", password="of the service")["id"]
        self.api.grant(other, self.api.find("project", "service"), "service")
        self.behind = Behind(cloud.auth_url, "of the service")

    def token(self, password: str = "first") -> str:
        return self.api.sign_in("ada", password, "blue")

    def accepts(self, what: str, token: str, service_token: str = "") -> dict[str, str]:
        status, said = self.behind.ask(token, service_token)
        self.tally.check(f"accepted: {what}", status == 200, f"{status} {said}")
        return said

    def refuses(self, what: str, token: str, service_token: str = "") -> None:
        status, said = self.behind.ask(token, service_token)
        self.tally.check(f"refused: {what}", status == 401, f"{status} {said}")

    def ours(self) -> None:
        said = self.accepts("a token of a project", self.token())
        expected = {"X-Said-User_Name": "ada", "X-Said-Project_Name": "blue"}
        self.tally.check("the service learns who it is", expected.items() <= said.items(), str(said))
        roles = set(said.get("X-Said-Roles", "").split(","))
        self.tally.check("the service learns the roles", roles == {"member", "reader"}, str(roles))
        self.accepts("an administrator's token", self.api.token)
        again = {"methods": ["token"], "token": {"id": self.token()}}
        self.accepts("a token of a token", self.api.issue(again, {"project": {"id": self.project}}))

    def foreign(self) -> None:
        self.refuses("no token", "")
        self.refuses("a word", "admin")
        token = self.token()
        for index in (0, 1, 5, 20, 60, -40, -1):
            self.refuses(f"a token with a changed bit in byte {index}", forged(token, index))
        self.refuses("half a token", token[: len(token) // 2])
        with installation.running("first-hour-foreign") as elsewhere:
            other = Api(elsewhere.auth_url)
            foreign = other.sign_in("admin", elsewhere.password("placewright"), "admin")
            self.tally.check("another installation issues a token", bool(foreign))
            self.refuses("a token of another installation", foreign)

    def revoked(self) -> None:
        token, other = self.token(), self.token()
        self.accepts("a token before it is revoked", token)
        status = self.api.call("DELETE", "/auth/tokens", X_Subject_Token=token).status
        self.tally.check("a token is revoked", status == 204, str(status))
        self.refuses("a revoked token", token)
        self.accepts("another token of its user", other)
        self.change(f"/users/{self.ada}", {"user": {"password": "second"}})
        self.refuses("a token from before the new password", other)
        token = self.token("second")
        self.accepts("a token of the new password", token)
        for path, what in ((f"/projects/{self.project}", "project"), (f"/users/{self.ada}", "user")):
            self.change(path, {what: {"enabled": False}})
            self.refuses(f"a token of a disabled {what}", token)
            self.change(path, {what: {"enabled": True}})
        self.refuses("a token from before its user was disabled", token)
        token = self.token("second")
        self.api.grant(self.ada, self.project, "member", "DELETE")
        self.refuses("a token whose user has no role any more", token)
        self.api.grant(self.ada, self.project, "member")
        self.accepts("the same token with the role given back", token)

    def change(self, path: str, body: dict) -> None:
        status = self.api.call("PATCH", path, body).status
        assert status == 200, f"{path}: {status}"

    def expired(self) -> None:
        """A token ends with the application credential that it was issued for."""
        own = Api(self.cloud.auth_url)
        own.token = self.token("second")
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        fields = {"name": "short", "expires_at": end.isoformat().replace("+00:00", "Z")}
        body = {"application_credential": fields}
        made = own.call("POST", f"/users/{self.ada}/application_credentials", body).body["application_credential"]
        credential = {"id": made["id"], "secret": made["secret"]}
        token = self.api.issue({"methods": ["application_credential"], "application_credential": credential})
        self.accepts("a token of an application credential", token)
        time.sleep(3.2)
        self.refuses("an expired token", token)
        service_token = self.api.sign_in("other", "of the service", "service")
        self.refuses("an expired token whose credential is gone, of another service", token, service_token)
        self.refuses("a token with a user's token as service token", self.token("second"), self.token("second"))
        self.accepts("a token beside a service token", self.token("second"), service_token)


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    tally = Tally()
    with installation.running("first-hour") as cloud:
        walk = Walk(cloud, tally)
        for part in (walk.ours, walk.foreign, walk.revoked, walk.expired):
            part()
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
