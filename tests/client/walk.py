#!/usr/bin/env python3
"""Walk through every Placement command of the openstack client.

  tests/client/run                      against Placewright's release build
  tests/client/run --serve reference    against OpenStack Placement itself
  tests/client/run --url http://127.0.0.1:8778    against a running, empty one

The client is python-openstackclient with osc-placement 4.9.1 from PyPI.  Every
command and every option of osc-placement is used at the microversions that
matter to it, and what it prints (as JSON) is checked.  A command or an option
that no step used counts as a failure.

Prints one line for each step; the last line is "N passed, N failed".
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Callable

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

import launch
import osc
import steps
import tally

# The client would read such variables: what it does must not depend on who starts the walk.
for name in [n for n in os.environ if n.startswith("OS_")]:
    del os.environ[name]


class Walk:
    """Runs commands, compares what they print, and notes what was used."""

    def __init__(self, client: osc.Client, counts: tally.Tally) -> None:
        self.client = client
        self.counts = counts
        self.used: dict[str, set[str]] = {}

    def _note(self, words: list[str]) -> str:
        """Which command this is; its options count as used."""
        name = max(
            (n for n in osc.COMMANDS if words[: len(n.split())] == n.split()),
            key=len,
        )
        self.used.setdefault(name, set()).update(w for w in words if w[:2] == "--")
        return name

    def run(self, line: str, version: str, want=None, fails: str | None = None):
        """One step: a command line, split at spaces.

        ``want`` is what it prints as JSON: a value, or a function that says
        whether it is right; None for a command that prints nothing.  With
        ``fails`` the command must fail with this text in its message.
        """
        words = line.split()
        name = self._note(words)
        cls = osc.COMMANDS[name]
        prints = issubclass(cls, (osc.osc_command.Lister, osc.osc_command.ShowOne))
        reply = self.client([*words, *(["-f", "json"] if prints else [])], version)
        step = f"{version:5} {line}"
        if fails is not None:
            ok = reply.status != 0 and fails in reply.err
            self.counts.check(
                f"{step}  (refused)", ok, f"expected a refusal: {fails}\n{describe_reply(reply)}"
            )
            return None
        if reply.status != 0:
            self.counts.check(step, False, describe_reply(reply))
            return None
        if not prints:
            self.counts.check(step, reply.out == "", describe_reply(reply))
            return None
        try:
            got = reply.json()
        except ValueError:
            self.counts.check(step, False, f"not JSON\n{describe_reply(reply)}")
            return None
        self.counts.check(step, matches(got, want), f"expected {want}\ngot {got}")
        return got

    def check_coverage(self) -> None:
        """Every command was run, and every option of it was given."""
        for name in sorted(osc.COMMANDS):
            options = osc.options_of(name)
            missing = sorted(options - self.used.get(name, set()))
            self.counts.check(
                f"coverage of '{name}': {len(options)} options",
                name in self.used and not missing,
                (
                    f"never used: {' '.join(missing)}"
                    if name in self.used
                    else "never run"
                ),
            )


def describe_reply(reply: osc.Reply) -> str:
    return f"exit status {reply.status}\n{reply.out}{reply.err}".strip()


def matches(got, want) -> bool:
    if isinstance(want, Callable):
        try:
            return bool(want(got))
        except (KeyError, IndexError, TypeError, AttributeError):
            return False
    if isinstance(got, list) and isinstance(want, list):
        return sorted(map(str, got)) == sorted(map(str, want))
    return got == want


# "secret", as htpasswd -B writes it.
PASSWORDS = "walker:$2b$05$09VO4hvu9NVVE6WL5md66uahRU7LsjiqQux7vMMzeiAmsBTm7KgVC\n"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    launch.add_serve_option(parser)
    parser.add_argument(
        "--url", help="use this server, which runs already and is empty (noauth2)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the server's files")
    return parser.parse_args()


def walk_everything(url: str, counts: tally.Tally) -> None:
    token = ["--os-auth-type=admin_token", "--os-token=admin", f"--os-endpoint={url}"]
    walk = Walk(osc.Client(token), counts)
    for part in steps.PARTS:
        part(walk)
    walk.check_coverage()


def walk_with_passwords(serve: str, directory: pathlib.Path, counts: tally.Tally):
    """A short walk on a server with users and passwords in a file."""
    users = directory / "users.htpasswd"
    users.write_text(PASSWORDS)
    settings = "env PLACEWRIGHT_AUTH_STRATEGY=http_basic"
    settings += f" PLACEWRIGHT_HTTP_BASIC_USER_FILE={users}"
    with launch.running(f"{settings} {serve}", directory / "basic") as server:
        for password, is_right in (("secret", True), ("wrong", False)):
            login = ["--os-auth-type=http_basic", f"--os-endpoint={server.url}"]
            login += ["--os-username=walker", f"--os-password={password}"]
            walk = Walk(osc.Client(login), counts)
            if is_right:
                steps.short(walk)
            else:
                walk.run("trait list", steps.NEWEST, fails="")


def main() -> int:
    args = parse_args()
    counts = tally.Tally()
    if args.url:
        walk_everything(args.url, counts)
        return counts.finish()
    with launch.scratch("client", args.keep) as directory:
        with launch.running(args.serve, directory / "main") as server:
            walk_everything(server.url, counts)
        with launch.running(args.serve, directory / "open", "open-policy") as server:
            none = ["--os-auth-type=none", f"--os-endpoint={server.url}"]
            steps.short(Walk(osc.Client(none), counts))
        if args.serve == launch.OURS:
            walk_with_passwords(args.serve, directory, counts)
    return counts.finish()


if __name__ == "__main__":
    sys.exit(main())
