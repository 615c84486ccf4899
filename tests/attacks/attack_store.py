"""Reading somebody's store as another user of the machine, and taking entries from it after a kill."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import uuid

import launch
import servers
import sqlite_log
from case import Case, Site

NOBODY = 65_534


def _wide_open_umask(case: Case) -> None:
    """Files that are made under umask 0 are for their owner alone, and nobody else can read them."""
    # Below a directory that everybody may search, as /var/lib is.
    place = pathlib.Path(tempfile.mkdtemp(prefix="placewright-attack-store-"))
    place.chmod(0o755)
    before = os.umask(0)
    site = Site(place / "site", 2, {})
    try:
        site.start()
        os.umask(before)
        state = place / "site" / "state"
        wrong = [
            f"{path.relative_to(place)}: {stat.S_IMODE(path.stat().st_mode):o}"
            for path in [state, *state.rglob("*")]
            if path.stat().st_mode & 0o077
        ]
        names = {path.name for path in state.rglob("*")}
        wanted = {"control", "cell1", "journal.sqlite", "mark", "lock", "guests", "clouds.yaml"}
        case.check("the state is there", wanted <= names, sorted(names))
        case.check("with umask 0, all of it is for its owner alone", not wrong, wrong)
        if os.geteuid() == 0:
            _as_somebody_else(case, place, state)
    finally:
        os.umask(before)
        site.server.stop()
        shutil.rmtree(place, ignore_errors=True)


def _as_somebody_else(case: Case, place: pathlib.Path, state: pathlib.Path) -> None:
    # A copy of the program, since the built one may lie where others cannot go.
    program = place / "program"
    shutil.copy(launch.program(), program)
    program.chmod(0o755)
    commands = {
        "exports the journal": [str(program), "journal", "export", "--store", str(state / "control")],
        "lists the folder": ["ls", str(state)],
        "reads clouds.yaml": ["cat", str(state / "clouds.yaml")],
        "reads the agents' record": ["cat", str(state / "cell1" / "guests")],
    }
    for name, words in commands.items():
        run = subprocess.run(words, capture_output=True, user=NOBODY, group=NOBODY, extra_groups=[])
        output = (run.stdout[:200], run.stderr[:300])
        case.check(f"nobody else {name}", run.returncode != 0 and not run.stdout, output)


def _warned(case: Case) -> None:
    """If others can read an older store, the start and verify warn of it."""
    store = case.folder / "open" / "control"
    server = _control(case, store)
    server.start()
    server.stop()
    store.chmod(0o755)
    (store / "journal.sqlite").chmod(0o644)
    server = _control(case, store)
    server.start()
    server.stop()
    log = pathlib.Path(server.log_path).read_text()
    case.check("a store that others can read is a warning", "other users" in log, log[-500:])
    run = _journal("verify", store)
    case.check("and verify says so", "warning: other users" in run.stdout, run.stdout)


def _control(case: Case, store: pathlib.Path) -> servers.Server:
    from ports import free_port

    port = free_port()
    words = [str(launch.program()), "control", "--config", "/dev/null"]
    words += ["--placement-listen", f"127.0.0.1:{port}", "--store-path", str(store)]
    log = case.folder / f"{store.parent.name}.log"
    return servers.Server(words, port, str(log), start_timeout=20)


def _journal(command: str, store: pathlib.Path) -> subprocess.CompletedProcess:
    words = [str(launch.program()), "journal", command, "--store", str(store)]
    return subprocess.run(words, capture_output=True, text=True)


def _flipped_byte(case: Case) -> None:
    """One flipped byte in the log of a killed server: the start and verify say what is missing."""
    from case import Caller

    store = case.folder / "flipped" / "control"
    server = _control(case, store)
    server.start()
    caller = Caller(server.port)
    for number in range(30):
        body = {"uuid": str(uuid.uuid4()), "name": f"host-{number}"}
        answer = caller("POST", "/resource_providers", body)
        assert answer.status == 200, answer
    caller.close()
    server.kill()
    log = store / "journal.sqlite-wal"
    data = bytearray(log.read_bytes())
    ends = [at for at, _, is_last in sqlite_log.frames(data) if is_last]
    data[ends[len(ends) // 2] + 100] ^= 1
    log.write_bytes(data)
    run = _journal("verify", store)
    named = re.search(r"missing: .*lacks entries (\d+) to (\d+) \(\d+ entries\)", run.stdout)
    case.check("verify names the missing entries", bool(run.returncode == 1 and named), run.stdout)
    for attempt in ("the start", "the next start"):
        try:
            server.start()
            refused, outcome = False, "it runs"
        except servers.ServerError as error:
            refused, outcome = "exit status 1" in str(error), str(error)
        server.stop()
        text = pathlib.Path(server.log_path).read_text()
        said = named and f"lacks entries {named[1]} to {named[2]}" in text
        case.check(f"{attempt} is refused with what is missing", bool(refused and said), outcome + text[-500:])
    case.check("the log stays for whoever can read it", log.read_bytes() == bytes(data))


def _broken_pipe(case: Case) -> None:
    """If the reader of the output leaves early, nothing panics."""
    store = case.folder / "flipped" / "control"
    for command in ("stats", "verify", "export"):
        words = f"'{launch.program()}' journal {command} --store '{store}' | true"
        run = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
        case.check(f"journal {command} | true does not panic", "panicked" not in run.stderr, run.stderr)


def run(case: Case) -> None:
    _wide_open_umask(case)
    _warned(case)
    _flipped_byte(case)
    _broken_pipe(case)
