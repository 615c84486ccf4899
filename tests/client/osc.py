"""The commands of osc-placement, their options, and what they printed."""

import json
from importlib import metadata

import openstack_client
from osc_lib.command import command as osc_command

COMMANDS = {
    entry.name.replace("_", " "): entry.load()
    for entry in metadata.entry_points(group="openstack.placement.v1")
}


def options_of(name: str) -> set[str]:
    """The options that are the command's own, not those of every command."""
    cls = COMMANDS[name]
    plain = osc_command.Command
    for base in (osc_command.Lister, osc_command.ShowOne):
        if issubclass(cls, base):
            plain = base
    shared = {"-h", "--help"}

    def strings(parser) -> set[str]:
        return {s for action in parser._actions for s in action.option_strings}

    class Plain(plain):
        """Nothing but what every command of this kind has."""

        def take_action(self, parsed_args):
            """Is never called."""

    return (
        strings(cls(None, None).get_parser(name))
        - shared
        - strings(Plain(None, None).get_parser(name))
    )


class Reply:
    """What one command printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    def json(self):
        return json.loads(self.out)


class Client:
    """Runs commands with one way to authenticate."""

    def __init__(self, auth: list[str]) -> None:
        self.auth = auth

    def __call__(self, arguments: list[str], version: str) -> Reply:
        ended = openstack_client.run([*self.auth, "--os-placement-api-version", version, *arguments])
        return Reply(ended.returncode, ended.stdout, ended.stderr)
