"""Playbooks of the newest Ansible against `placewright up`, with the clouds.yaml as written and nothing overridden.

Accounts, a quota, flavors, a key, a group, an image, hosts of a zone and servers are made, read, changed and removed with
the modules of the collection openstack.cloud. What makes and what removes runs twice, and must change nothing the second
time. Each item of a task counts. The last line is "N passed, N failed".
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import installation

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh1Z2Ugc3VycHJpc2UgdGhhdCB0aGlzIGlzIGEga2V5 ada@example.org"
TASK = re.compile(r"^TASK \[(.*)\] \**$")
RESULT = re.compile(r"^(ok|changed|fatal|failed|skipping): \[localhost\](.*)$")
LIMIT_S = 600


class Playbooks:
    """Runs playbooks, and counts what their tasks came to."""

    def __init__(self, cloud: installation.Installation, tally: Tally, tags: list[str]) -> None:
        self.cloud = cloud
        self.tally = tally
        self.tags = tags
        image = cloud.folder / "image.raw"
        image.write_bytes(os.urandom(1_000_000))
        self.variables = [f"image={image}", f"key='{KEY}'", f"host={self._a_host()}"]

    def _environment(self) -> dict[str, str]:
        named = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "ANSIBLE_"))}
        return named | {
            "OS_CLIENT_CONFIG_FILE": str(self.cloud.clouds),
            "OS_CLOUD": "placewright",
            "ANSIBLE_COLLECTIONS_PATH": str(HERE / ".venv/collections"),
            "ANSIBLE_HOME": str(self.cloud.folder / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "LC_ALL": "C.UTF-8",
        }

    def _a_host(self) -> str:
        listed = self.cloud.openstack("compute", "service", "list", "--service", "nova-compute", "-f", "json")
        return sorted(row["Host"] for row in listed.json)[0]

    def run(self, name: str, changes: bool | None) -> None:
        """Run a playbook to its end. ``changes``: whether each task has to change something, or none; None if either."""
        words = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), str(HERE / f"playbooks/{name}.yaml")]
        for variable in self.variables:
            words += ["--extra-vars", variable]
        for tag in self.tags:
            words += ["--tags", tag]
        ended = subprocess.run(
            words, env=self._environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )
        task, counted = "", 0
        for line in ended.stdout.splitlines():
            if found := TASK.match(line):
                task = found[1]
            elif found := RESULT.match(line):
                counted += 1
                self._count(f"{name}: {task}", found[1], found[2], changes)
        detail = ended.stdout[-2000:] + ended.stderr[-2000:]
        self.tally.check(f"{name} comes to its end", ended.returncode == 0 and counted, detail)

    def _count(self, what: str, result: str, rest: str, changes: bool | None) -> None:
        item = re.search(r"\(item=(\w+)\)", rest)
        what += f", {item[1]}" if item else ""
        self.tally.check(what, result in ("ok", "changed"), rest[:2000])
        if changes is not None and result in ("ok", "changed"):
            how = "changes something" if changes else "changes nothing the second time"
            self.tally.check(f"{what} {how}", (result == "changed") == changes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="flavor, key, group, image and servers only")
    short = parser.parse_args().short
    tally = Tally()
    with installation.running("first-hour-ansible") as cloud:
        playbooks = Playbooks(cloud, tally, ["short"] if short else [])
        playbooks.run("make", changes=True)
        playbooks.run("make", changes=False)
        playbooks.run("read", changes=None)
        if not short:
            playbooks.run("change", changes=None)
        playbooks.run("remove", changes=True)
        if not short:
            playbooks.run("remove", changes=False)
        left = cloud.openstack("server", "list", "--all-projects", "-f", "json").json
        tally.check("no server is left", left == [], str(left))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
