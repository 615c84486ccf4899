"""An installation with hosts, racks, flavors and servers, for the page to show."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from ports import free_port  # noqa: E402

EVIL = "<img src=x onerror=window.owned=1>'\"&"


class Installation:
    """`placewright up` in a folder, with its ports. `hosts` is their number, or the file with the machines of a trace."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path, hosts: int | pathlib.Path, *options: str) -> None:
        names = ("placement", "compute", "scheduler", "image", "network", "identity", "health", "ui", "control")
        self.ports = {name: free_port() for name in names}
        self.folder, self.program = folder, program
        self.log = open(folder / "up.log", "ab")
        self.arguments = [str(program), "up", "--folder", str(folder / "state"), "--hosts" if isinstance(hosts, int) else "--nodes", str(hosts), *options]
        for name, port in self.ports.items():
            self.arguments += [f"--{name}-listen", f"127.0.0.1:{port}"]
        self.process = None

    def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PLACEWRIGHT_")}
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Three things to try"):
                break
        self.said = "".join(lines)
        if self.process.poll() is not None:
            raise RuntimeError(f"up ended: {(self.folder / 'up.log').read_text()[-2000:]}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.ports['ui']}/ui/"

    def password(self, cloud: str) -> str:
        text = (self.folder / "state/clouds.yaml").read_text()
        section = text.split(f"\n  {cloud}:")[1]
        return re.search(r"password: '?\"?([^'\"\n]+)", section).group(1)

    def sign_in(self, name: str, password: str, project: str) -> str:
        user = {"name": name, "password": password, "domain": {"id": "default"}}
        scope = {"project": {"name": project, "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        _, headers, _ = self.ask("identity", "POST", "/v3/auth/tokens", body)
        return headers["X-Subject-Token"]

    def ask(self, service: str, method: str, path: str, body=None, token: str | None = None, headers=None):
        """The status, headers and body of a request. Refusals are answers too."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if token:
            sent["X-Auth-Token"] = token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[service]}{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                content = answer.read()
                return answer.status, answer.headers, parsed(content)
        except urllib.error.HTTPError as error:
            return error.code, error.headers, parsed(error.read())


def parsed(content: bytes):
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def apply_topology(installation: Installation, token: str, hosts: list[dict]) -> None:
    """Six hosts a rack, four racks a room."""
    places: dict[str, dict[str, str]] = {"rack": {}, "room": {}}

    def place(level: str, number: int) -> str:
        name = f"{level}-{number:02}"
        if name not in places[level]:
            places[level][name] = str(uuid.uuid4())
            installation.ask("scheduler", "PUT", f"/v1/aggregates/{places[level][name]}", {"name": name}, token)
        return places[level][name]

    version = {"OpenStack-API-Version": "placement 1.39"}
    for index, host in enumerate(hosts):
        path = f"/resource_providers/{host['uuid']}"
        _, _, provider = installation.ask("placement", "GET", path, token=token, headers=version)
        aggregates = [place("rack", index // 6 + 1), place("room", index // 24 + 1)]
        body = {"aggregates": aggregates, "resource_provider_generation": provider["generation"]}
        status, _, answer = installation.ask("placement", "PUT", f"{path}/aggregates", body, token, version)
        if status != 200:
            raise RuntimeError(f"aggregates of {host['host']}: {status} {answer}")
    levels = [{"name": level, "aggregates": list(found.values())} for level, found in places.items()]
    status, _, answer = installation.ask("scheduler", "PUT", "/v1/topology", {"levels": levels}, token)
    if status not in (200, 204):
        raise RuntimeError(f"topology: {status} {answer}")


def settle(installation: Installation) -> dict:
    """Makes racks, flavors, servers of two projects, and one that fits nowhere. Returns the tokens and ids."""
    admin = installation.sign_in("admin", installation.password("placewright"), "admin")
    demo = installation.sign_in("demo", installation.password("demo"), "demo")
    _, _, hosts = installation.ask("scheduler", "GET", "/v1/hosts?limit=10000", token=admin)
    hosts = sorted(hosts["hosts"], key=lambda host: host["host"])
    apply_topology(installation, admin, hosts)
    compute = {"token": admin}
    for name, vcpus, ram, disk in (("S", 1, 1024, 5), ("M", 4, 8192, 20), ("L", 16, 32768, 80), ("giant", 4000, 1024, 1)):
        flavor = {"id": name, "name": name, "vcpus": vcpus, "ram": ram, "disk": disk}
        installation.ask("compute", "POST", "/v2.1/flavors", {"flavor": flavor}, **compute)
    _, _, images = installation.ask("image", "GET", "/v2/images", token=admin)
    image = images["images"][0]["id"]
    ids = {}
    for token, name, flavor, count in (
        (admin, "web", "S", 20), (admin, "db", "M", 8), (demo, "tenant-server", "S", 2),
        (admin, "too-large", "giant", 1), (admin, EVIL, "S", 1),
    ):
        server = {"name": name, "flavorRef": flavor, "imageRef": image, "networks": "none", "min_count": count, "max_count": count}
        version = {"OpenStack-API-Version": "compute 2.96"}
        status, _, answer = installation.ask("compute", "POST", "/v2.1/servers", {"server": server}, token=token, headers=version)
        if status != 202:
            raise RuntimeError(f"{name}: {status} {answer}")
        ids[name] = answer["server"]["id"]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        _, _, building = installation.ask("compute", "GET", "/v2.1/servers?all_tenants=1&status=BUILD", token=admin)
        if not building["servers"]:
            break
        time.sleep(0.1)
    return {"admin": admin, "demo": demo, "ids": ids, "hosts": hosts, "image": image}


def fill(installation: Installation, data: dict) -> None:
    """Fills the hosts unequally, for pictures."""
    version = {"OpenStack-API-Version": "compute 2.96"}
    for index, host in enumerate(data["hosts"]):
        count = (index * 7 + index // 6 * 3) % 15
        if count == 0:
            continue
        server = {"name": f"app-{index}", "flavorRef": "M", "imageRef": data["image"], "networks": "none", "host": host["host"]}
        server |= {"min_count": count, "max_count": count}
        status, _, answer = installation.ask("compute", "POST", "/v2.1/servers", {"server": server}, data["admin"], version)
        if status != 202:
            raise RuntimeError(f"app-{index}: {status} {answer}")


@contextlib.contextmanager
def running(program: pathlib.Path, folder: pathlib.Path, hosts: int | pathlib.Path, *options: str):
    installation = Installation(program, folder, hosts, *options)
    installation.start()
    try:
        yield installation
    finally:
        if installation.process.poll() is None:
            installation.stop()
        installation.log.close()
