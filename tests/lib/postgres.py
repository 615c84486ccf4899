"""A PostgreSQL server of the test's own, with its data in a directory. It is stopped at the end."""

import contextlib
import glob
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import launch

# Debian keeps the server's programs out of the path.
PROGRAM_FOLDERS = "/usr/lib/postgresql/*/bin"
ACCOUNT = "postgres"


def find() -> pathlib.Path | None:
    """The directory with initdb and pg_ctl of the newest version."""
    found = sorted(glob.glob(f"{PROGRAM_FOLDERS}/initdb"), key=lambda p: int(p.split("/")[-3]))
    if found:
        return pathlib.Path(found[-1]).parent
    path = shutil.which("initdb")
    return pathlib.Path(path).parent if path else None


def install() -> pathlib.Path | None:
    """Find it, or install Debian's package when that is possible; else None."""
    if find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing PostgreSQL from Debian", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends"]):
            package = ["postgresql"] if command[0] == "install" else []
            subprocess.run(
                ["apt-get", "-qq", *command, *package],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=False,
            )
    return find()


@contextlib.contextmanager
def running(programs: pathlib.Path, directory: pathlib.Path) -> Iterator[str]:
    """A running cluster with PostgreSQL's defaults, so durable; yields the URL of an empty database.

    ``directory`` is made here; its parent must be this program's own.
    """
    directory.mkdir()
    as_account = []
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        for path in (directory, directory.parent):
            path.chmod(0o755)
        shutil.chown(directory, ACCOUNT)
        as_account = ["runuser", "-u", ACCOUNT, "--"]
    port = launch.free_port()
    data = directory / "data"

    def run(*command: object) -> None:
        subprocess.run(
            [*as_account, *map(str, command)],
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    run(programs / "initdb", "-D", data, "-U", ACCOUNT, "-A", "trust", "-E", "UTF8")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {directory}"
    control = [programs / "pg_ctl", "-D", data, "-w"]
    run(*control, "-l", directory / "log", "-o", options, "start")
    try:
        where = ["-h", "127.0.0.1", "-p", port, "-U", ACCOUNT]
        run(programs / "createdb", *where, "placement")
        yield f"postgresql+psycopg2://{ACCOUNT}@127.0.0.1:{port}/placement"
    finally:
        run(*control, "-m", "fast", "stop")
