"""The ``openstack`` client of this virtual environment, called as a person calls it.

Each command runs ``openstackclient.shell.main``, which is what the installed program calls, in a forked child. So it
behaves as the program does, and its modules, which take more than a second to import, are imported only once.
"""

import contextlib
import functools
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import traceback
from importlib import metadata

from openstackclient import shell
from osc_lib.command import command


class _Nothing(command.Command):
    """A command of which only the parser is wanted."""

    def take_action(self, parsed_args):
        """Is never called."""


@functools.cache
def _import_everything() -> None:
    """Imports all commands and plugins, because the client does so before each command."""
    entry_points = metadata.entry_points()
    for group in entry_points.groups:
        if group.startswith(("openstack.", "keystoneauth1.")):
            for entry in entry_points.select(group=group):
                # Some plugins need packages that are not installed. The client passes over them too.
                with contextlib.suppress(Exception):
                    entry.load()
    # Finds out which package has which command. The client does it once in a process.
    _Nothing(None, None).get_parser("")
    # What is there does not change, so children need no copy of it for their collector of garbage.
    gc.collect()
    gc.freeze()


def run(
    words: list[str],
    env: dict[str, str] | None = None,
    folder: str | os.PathLike | None = None,
    limit_s: float = 60,
) -> subprocess.CompletedProcess:
    """Runs a command to its end, or kills it after ``limit_s``. Without ``env`` it has the environment of the caller."""
    _import_everything()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # What is not written yet would be written by the child too.
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _become_openstack(words, env, folder, out.fileno(), err.fileno())
        timer = threading.Timer(limit_s, os.kill, (child, 9))
        timer.start()
        _, status = os.waitpid(child, 0)
        timer.cancel()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            ["openstack", *words], os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()
        )


def _become_openstack(words, env, folder, out: int, err: int) -> None:
    status = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        if folder is not None:
            os.chdir(folder)
        sys.argv = [str(pathlib.Path(sys.executable).with_name("openstack")), *words]
        status = shell.main(list(words))
    except SystemExit as exit_request:
        status = exit_request.code if isinstance(exit_request.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
