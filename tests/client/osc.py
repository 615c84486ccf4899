"""The real ``openstack`` client, called as a person calls it.

Each command runs ``openstackclient.shell.main`` in a forked child. So it behaves
as the installed program does, and its modules are imported only once.
"""

import json
import os
import tempfile
import threading
import traceback
from importlib import metadata

from openstackclient import shell
from osc_lib.command import command as osc_command

# Loaded now, so that each child has them already.
COMMANDS = {
    entry.name.replace("_", " "): entry.load()
    for entry in metadata.entry_points(group="openstack.placement.v1")
}
LIMIT_S = 60


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
        argv = [*self.auth, "--os-placement-api-version", version, *arguments]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _become_openstack(argv, out.fileno(), err.fileno())
            timer = threading.Timer(LIMIT_S, os.kill, (child, 9))
            timer.start()
            _, status = os.waitpid(child, 0)
            timer.cancel()
            out.seek(0)
            err.seek(0)
            return Reply(
                os.waitstatus_to_exitcode(status),
                out.read().decode(),
                err.read().decode(),
            )


def _become_openstack(argv: list[str], out: int, err: int) -> None:
    status = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        status = shell.main(argv)
    except SystemExit as exit_request:
        status = exit_request.code if isinstance(exit_request.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        import sys

        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
