"""Images and networks of `placewright up` with the newest clients, as its clouds.yaml says.

The last line is "N passed, N failed".
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(1, str(ROOT / "tests/lib"))

import launch
import openstack_client
from ports import free_port

HOSTS = 4
UP_S = 60
COMMAND_S = 180


class Walk:
    """Counts what held and what did not."""

    def __init__(self, folder: pathlib.Path, clouds: pathlib.Path):
        self.folder = folder
        self.environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": "placewright"}
        self.passed = self.failed = 0

    def check(self, name: str, holds: bool, seen: object = "") -> None:
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {name}: {seen}", flush=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return openstack_client.run(
            list(arguments), env=self.environment, folder=self.folder, limit_s=COMMAND_S
        )

    def works(self, *arguments: str, formatted: bool = False) -> object:
        """Runs a command that has to work; its output, as JSON if it can be had so."""
        done = self.run(*arguments, *(["-f", "json"] if formatted else []))
        self.check(" ".join(arguments), done.returncode == 0, done.stderr.strip()[-400:])
        try:
            return json.loads(done.stdout) if formatted else done.stdout
        except ValueError:
            return None

    def refused(self, word: str, *arguments: str) -> None:
        """Runs a command that has to be refused, with a reason that has this word."""
        done = self.run(*arguments)
        self.check(f"{' '.join(arguments)} is refused", done.returncode != 0 and word in done.stderr, done.stderr)


def walk_images(walk: Walk) -> None:
    """What the openstack client does with images."""
    content = os.urandom(5_000_000)
    (walk.folder / "image.raw").write_bytes(content)
    made = walk.works(
        "image", "create", "--file", "image.raw", "--disk-format", "raw", "--property", "hw_cpu_policy=dedicated",
        "--tag", "first", "debian", formatted=True,
    )
    walk.check("the checksum is the MD5", made["checksum"] == hashlib.md5(content).hexdigest(), made)
    shown = walk.works("image", "show", "debian", formatted=True)
    sha512 = hashlib.sha512(content).hexdigest()
    walk.check("the hash is the SHA-512", shown["properties"]["os_hash_value"] == sha512, shown)
    walk.check("the property is kept", shown["properties"]["hw_cpu_policy"] == "dedicated", shown)
    walk.check("it is active", (shown["status"], shown["size"]) == ("active", len(content)), shown)
    walk.works("image", "set", "--property", "os_distro=debian", "--min-ram", "64", "--tag", "second", "debian")
    walk.works("image", "unset", "--property", "hw_cpu_policy", "--tag", "first", "debian")
    shown = walk.works("image", "show", "debian", formatted=True)
    walk.check("tags are set and unset", shown["tags"] == ["second"], shown)
    walk.check("properties are unset", "hw_cpu_policy" not in shown["properties"], shown)
    walk.works("image", "save", "--file", "copy.raw", "debian")
    walk.check("the copy is the same", (walk.folder / "copy.raw").read_bytes() == content)
    names = {image["Name"] for image in walk.works("image", "list", "--long", formatted=True)}
    walk.check("both images are listed", names == {"demo", "debian"}, names)
    walk.check("lists are filtered", walk.works("image", "list", "--tag", "first", formatted=True) == [])
    walk.works("image", "set", "--public", "--protected", "debian")
    walk.refused("protected", "image", "delete", "debian")
    walk.works("image", "set", "--unprotected", "--shared", "debian")
    walk.works("image", "add", "project", "debian", "demo")
    members = walk.works("image", "member", "list", "debian", formatted=True)
    walk.check("the member is listed", [member["Status"] for member in members] == ["pending"], members)
    walk.works("image", "remove", "project", "debian", "demo")
    walk.refused("hw_cpu_policy", "image", "set", "--property", "hw_cpu_policy=lazy", "debian")


def walk_projects(walk: Walk) -> None:
    """What another project than the administrator's sees and may do."""
    walk.environment["OS_CLOUD"] = "demo"
    names = {image["Name"] for image in walk.works("image", "list", formatted=True)}
    walk.check("a project sees what is public", names == {"demo"}, names)
    walk.refused("debian", "image", "show", "debian")
    walk.works("image", "create", "--file", "image.raw", "--disk-format", "raw", "mine")
    walk.refused("publicize", "image", "set", "--public", "mine")
    walk.refused("", "image", "delete", "demo")
    walk.environment["OS_CLOUD"] = "placewright"
    names = {image["Name"] for image in walk.works("image", "list", formatted=True)}
    walk.check("administrators see all", names == {"demo", "debian", "mine"}, names)
    walk.works("image", "delete", "mine")


def walk_networks(walk: Walk) -> None:
    """What the openstack client asks of networks."""
    for words in (["network"], ["subnet"], ["port"], ["security", "group"], ["router"]):
        listed = walk.works(*words, "list", formatted=True)
        walk.check(f"there is no {' '.join(words)}", listed == [], listed)
    walk.refused("no networks", "network", "create", "lan")
    walk.refused("lan", "network", "show", "lan")


def walk_servers(walk: Walk) -> None:
    """Servers by openstacksdk, as programs make them."""
    walk.works("flavor", "create", "--id", "small", "--vcpus", "1", "--ram", "512", "--disk", "1", "small")
    walk.works("server", "create", "--image", "debian", "--flavor", "small", "--nic", "none", "--wait", "one")
    walk.works("server", "create", "--image", "demo", "--flavor", "small", "--no-network", "--wait", "two")
    servers = walk.works("server", "list", "--long", formatted=True)
    walk.check("servers show their images", {server["Image Name"] for server in servers} == {"debian", "demo"}, servers)
    walk.refused("nothing", "server", "create", "--image", "nothing", "--flavor", "small", "--nic", "none", "three")
    walk.refused("lan", "server", "create", "--image", "demo", "--flavor", "small", "--network", "lan", "three")
    walk.works("server", "delete", "--wait", "one", "two")

    import openstack
    from openstack.exceptions import SDKException

    cloud = openstack.connect(cloud="placewright")
    image = cloud.get_image("debian")
    for name, asked in [("by-name", {"image": "debian"}), ("by-object", {"image": image}), ("demo", {"image": "demo"})]:
        server = cloud.create_server(name, flavor="small", wait=True, timeout=60, **asked)
        walk.check(f"{name} is active", server.status == "ACTIVE", server.status)
    for name, wrong in [
        ("networks", {"networks": [{"uuid": "70ace000-0000-4000-8000-000000000009"}]}),
        ("imageRef", {"image_id": "70ace000-0000-4000-8000-000000000009", "networks": "none"}),
    ]:
        fields = {"image_id": image.id, **wrong}
        try:
            cloud.compute.create_server(name="wrong", flavor_id="small", **fields)
            walk.check(f"a wrong {name} is refused", False)
        except SDKException as error:
            walk.check(f"a wrong {name} is refused", f"server.{name}" in str(error), error)
    walk.check("there are no networks", not list(cloud.network.networks()) and not cloud.search_networks())
    for name in ("by-name", "by-object", "demo"):
        walk.check(f"{name} is deleted", cloud.delete_server(name, wait=True, timeout=60))
    walk.check("the image is deleted", cloud.delete_image("debian"))
    walk.check("it is gone", cloud.get_image("debian") is None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the installation's folder")
    arguments = parser.parse_args()
    program = str(launch.program())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="placewright-images-"))
    state = folder / "state"
    listeners = []
    for section in ("placement", "scheduler", "compute", "control", "identity", "image", "network", "health"):
        listeners += [f"--{section}-listen", f"127.0.0.1:{free_port()}"]
    log = open(folder / "up.log", "wb")
    up = subprocess.Popen(
        [program, "up", "--folder", str(state), "--hosts", str(HOSTS), "--cells", "1", *listeners],
        stdout=log, stderr=log,
    )
    try:
        end = time.monotonic() + UP_S
        while "Placewright is up" not in (folder / "up.log").read_text():
            if up.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"placewright up did not come up:\n{(folder / 'up.log').read_text()}")
            time.sleep(0.2)
        walk = Walk(folder, state / "clouds.yaml")
        os.environ.update(OS_CLIENT_CONFIG_FILE=str(state / "clouds.yaml"))
        walk_images(walk)
        walk_projects(walk)
        walk_networks(walk)
        walk_servers(walk)
        left = [file.name for file in (state / "images").iterdir()]
        walk.check("only the demo image has a file", len(left) == 1, left)
    finally:
        up.terminate()
        up.wait(timeout=30)
        log.close()
    if not arguments.keep:
        subprocess.run(["rm", "-rf", str(folder)], check=False)
    print(f"{walk.passed} passed, {walk.failed} failed")
    return 1 if walk.failed else 0


if __name__ == "__main__":
    sys.exit(main())
