"""Runs the calls of one service's client against one server, and prints what came of each as JSON.

    recorder.py SERVICE PLACEMENT_URL KEYSTONE_PORT

For each call: its name, what it returned or raised, and what went over the wire to placement.
"""

import importlib
import inspect
import json
import pathlib
import sys
import tempfile
import uuid

import requests

NAMESPACE = uuid.UUID("70ace000-0000-4000-8000-000000000000")
CONFIGURATION = """\
[DEFAULT]
os_auth_host = 127.0.0.1
os_auth_port = {port}
os_admin_username = admin
os_admin_password = secret
os_admin_project_name = admin
os_region_name = RegionOne
[placement]
auth_type = password
auth_url = http://127.0.0.1:{port}/v3
username = admin
password = secret
project_name = admin
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
"""


def name_of(word: str) -> str:
    """The UUID that both sides give to a word."""
    return str(uuid.uuid5(NAMESPACE, word))


class Recorder:
    """Makes calls of a client, and writes down what came of them."""

    def __init__(self, placement_url: str) -> None:
        self.placement_url = placement_url
        self.calls: list[dict] = []
        self.wire: list[dict] = []
        send = requests.Session.send

        def recording(session: requests.Session, request: requests.PreparedRequest, **more: object) -> requests.Response:
            response = send(session, request, **more)
            if request.url.startswith(placement_url):
                self._note(request, response)
            return response

        requests.Session.send = recording

    def _note(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        body = request.body or b""
        self.wire.append({
            "method": request.method,
            "path": request.url[len(self.placement_url):],
            "sent": body.decode() if isinstance(body, bytes) else body,
            "status": response.status_code,
            "headers": [[name.lower(), value] for name, value in response.headers.items()],
            "body": response.text,
        })

    def call(self, client: object, name: str, /, *words: object, **more: object) -> object:
        """Call a method of a client; what it returned, or None when it raised something."""
        self.wire = []
        returned = None
        try:
            returned = getattr(client, name)(*words, **more)
            outcome = ["returned", self._plain(returned)]
        except Exception as error:
            outcome = ["raised", type(error).__name__, str(error)]
        self.calls.append({"name": name, "outcome": outcome, "wire": self.wire})
        return returned

    def _plain(self, value: object) -> object:
        if isinstance(value, requests.Response):
            return ["a response", value.status_code]
        if isinstance(value, dict):
            return {str(key): self._plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple | set):
            return [self._plain(one) for one in value]
        return value if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"


def methods_of(kind: type, left_out: set[str] = frozenset()) -> list[str]:
    """The public methods of a client."""
    found = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    return sorted(set(found) - left_out)


def main() -> None:
    service, placement_url, port = sys.argv[1:]
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as configuration:
        configuration.write(CONFIGURATION.format(port=port))
        configuration.flush()
        module = importlib.import_module(f"of_{service}")
        recorder = Recorder(placement_url)
        methods = module.drive(recorder, pathlib.Path(configuration.name))
    print(json.dumps({"calls": recorder.calls, "methods": methods}))


if __name__ == "__main__":
    # The modules of the services import this one by its name, and share its classes then.
    sys.modules["recorder"] = sys.modules["__main__"]
    main()
