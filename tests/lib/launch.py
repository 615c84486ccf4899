"""Start and stop the server that a tool drives, and read the options for it.

``--serve CMD`` is a command line with the placeholders {port}, {dir} and
{profile}, as the conformance suite takes it in ``--server-cmd``.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import servers
from ports import free_port

TESTS = pathlib.Path(__file__).resolve().parent.parent
OURS = f"{TESTS}/conformance/serve {{port}} {{dir}} {{profile}}"
REFERENCE = f"{TESTS}/conformance/serve-reference {{port}} {{dir}} {{profile}}"


def add_serve_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--serve",
        metavar="CMD",
        default=OURS,
        help="command line that starts the server, with {port}, {dir} and"
        " {profile}; 'reference' starts OpenStack Placement itself"
        " (default: Placewright's release build, see tests/conformance/serve)",
    )


def program() -> pathlib.Path:
    """The placewright binary, found as tests/conformance/serve finds it."""
    named = os.environ.get("PLACEWRIGHT_BIN")
    if named:
        # Absolute, because a name without a folder would be looked for in PATH.
        return pathlib.Path(named).absolute()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TESTS.parent / "target"))
    builds = [target / profile / "placewright" for profile in ("release", "ci")]
    return next((build for build in builds if build.exists()), builds[0])


def bench_program() -> pathlib.Path:
    """placewright-bench: the one beside the program, or else the one that the tests of the workspace built."""
    beside = program().with_name("placewright-bench")
    if beside.exists():
        return beside
    target = os.environ.get("CARGO_TARGET_DIR", TESTS.parent / "target")
    return pathlib.Path(target) / "debug/placewright-bench"


def command_of(serve: str) -> str:
    return {"ours": OURS, "reference": REFERENCE}.get(serve, serve)


def make_server(
    serve: str,
    state: pathlib.Path,
    profile: str = "default",
    port: int | None = None,
    start_timeout: float = 300,
) -> servers.Server:
    """A server that is not started yet, with its files below ``state``.

    The time-out leaves room for the reference's first start, which installs it.
    """
    port = port or free_port()
    state.mkdir(parents=True, exist_ok=True)
    command = servers.fill_in(
        command_of(serve), {"port": port, "dir": state / "state", "profile": profile}
    )
    return servers.Server(
        command, port, str(state / "server.log"), start_timeout=start_timeout
    )


@contextlib.contextmanager
def scratch(name: str, keep: bool = False) -> Iterator[pathlib.Path]:
    """A directory for one run, removed afterwards unless it is kept."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=f"placewright-{name}-"))
    try:
        yield path
    finally:
        if keep:
            print(f"files are kept in {path}")
        else:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def running(
    serve: str, state: pathlib.Path, profile: str = "default"
) -> Iterator[servers.Server]:
    """A started server, stopped at the end."""
    server = make_server(serve, state, profile)
    try:
        server.start()
    except servers.ServerError as error:
        tail = server.log_tail()
        server.stop()
        raise SystemExit(f"{error}\n{tail}") from error
    try:
        yield server
    finally:
        server.stop()
