"""PostgreSQL with two standbys and synchronous quorum commit, and a supervisor that fails over.

A commit waits until the primary and one of the standbys have it on disk.  When the primary
is lost, it is fenced first: everything of it is killed.  Then the standby that received most
is promoted; among two of three members is always one with every acknowledged commit, so
nobody is promoted while a standby is missing too.  A former primary is made anew from the
present one when it is started again.
"""

import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import postgres
import servers
from layout import ENGINE_CLIENTS, ENGINE_MEMBERS, Layout
from processes import Process, unprivileged_account, wait_until, without_root

USER = "postgres"
DATABASE = "placewright"
START_S = 60
# How often the primary is asked whether it is there, and for how long it may stay silent.
LOOK_PAUSE_S = 0.5
SILENCE_S = 3.0
# The first message of a client: whether the server speaks TLS. The answer is one letter.
SSL_REQUEST = bytes.fromhex("0000000804d2162f")


class Member:
    """A server: its directory, and its process."""

    def __init__(self, number: int, programs: pathlib.Path, folder: pathlib.Path, layout: Layout) -> None:
        self.name = f"engine-{number}"
        self.programs = programs
        self.address = layout.engine_address()
        self.port = layout.engine_port(number, ENGINE_CLIENTS)
        self.data = folder / self.name
        names = ", ".join(f'"engine-{other}"' for other in range(ENGINE_MEMBERS))
        settings = {
            "listen_addresses": self.address,
            "port": self.port,
            "unix_socket_directories": "",
            "cluster_name": self.name,
            "shared_buffers": "64MB",
            "max_connections": 100,
            "synchronous_commit": "on",
            "synchronous_standby_names": f"ANY 1 ({names})",
            "wal_keep_size": "1GB",
            "wal_sender_timeout": "5s",
            "wal_receiver_timeout": "5s",
            "wal_retrieve_retry_interval": "200ms",
            "wal_receiver_status_interval": "1s",
        }
        command = [str(programs / "postgres"), "-D", str(self.data)]
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        inside = layout.inside(layout.engine_namespace(), without_root(command))
        self.process = Process(self.name, inside, folder)

    def run(self, program: str, *arguments: object) -> str:
        """Run a program of PostgreSQL's, and give what it prints."""
        command = without_root([str(self.programs / program), *map(str, arguments)])
        environment = {"PATH": "/usr/bin:/bin", "PGCONNECT_TIMEOUT": "2", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise servers.ServerError(f"{self.name}: {program}: {done.stderr.strip()}")
        return done.stdout.strip()

    def sql(self, statement: str) -> str:
        where = ["-h", self.address, "-p", self.port, "-U", USER, "-d", "postgres"]
        return self.run("psql", *where, "-X", "-A", "-t", "-F", " ", "-c", statement)

    def make_primary(self) -> None:
        """Make a new directory, for a primary."""
        self._make_folder()
        self.run("initdb", "-D", self.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        with open(self.data / "postgresql.conf", "a") as settings:
            settings.write("include_if_exists = 'primary.conf'\n")
        with open(self.data / "pg_hba.conf", "a") as rules:
            rules.write("host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n")

    def make_standby(self, primary: "Member") -> None:
        """Make a new directory, as a copy of the primary's."""
        self._make_folder()
        where = ["-h", primary.address, "-p", primary.port, "-U", USER]
        self.run("pg_basebackup", *where, "-D", self.data, "-c", "fast", "-X", "stream")
        self.follow(primary)

    def _make_folder(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700)
        self._give(self.data)

    @staticmethod
    def _give(path: pathlib.Path) -> None:
        try:
            shutil.chown(path, unprivileged_account().pw_name)
        except PermissionError:
            pass  # Not as root, so it is ours already.

    def follow(self, primary: "Member") -> None:
        """Be a standby of this primary, from now on or from the next start on."""
        signal_file = self.data / "standby.signal"
        signal_file.touch()
        where = f"host={primary.address} port={primary.port} user={USER}"
        settings = self.data / "primary.conf"
        settings.write_text(f"primary_conninfo = '{where} application_name={self.name}'\n")
        self._give(signal_file)
        self._give(settings)
        self.process.send(signal.SIGHUP)

    def is_standby(self) -> bool:
        return (self.data / "standby.signal").exists()

    def position(self) -> int | None:
        """How far the journal was received, once it is received no more; None while it may still grow."""
        found = self.sql(
            "select coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0'),"
            " (select count(*) from pg_stat_wal_receiver where status = 'streaming')"
        )
        match = re.fullmatch(r"([0-9A-F]+)/([0-9A-F]+) (\d+)", found)
        if match is None or match[3] != "0":
            return None
        return (int(match[1], 16) << 32) + int(match[2], 16)

    def answers(self) -> bool:
        """Whether it takes connections: of a process that is stopped only the kernel does."""
        try:
            with socket.create_connection((self.address, self.port), 1) as connection:
                connection.settimeout(1)
                connection.sendall(SSL_REQUEST)
                return connection.recv(1) in (b"N", b"S")
        except OSError:
            return False

    def takes_statements(self) -> bool:
        ended = self.process.notice_end()
        if ended:
            raise servers.ServerError(f"{self.name} ended: {ended}\n{self.process.log_tail()}")
        try:
            return self.sql("select 1") == "1"
        except servers.ServerError:
            return False


class PostgreSql:
    """Three members, the first of which is the primary at the start."""

    def __init__(self, folder: pathlib.Path, layout: Layout) -> None:
        programs = postgres.find()
        self.servers = [Member(n, programs, folder, layout) for n in range(ENGINE_MEMBERS)]
        self.members = [server.process for server in self.servers]
        # Which one is the primary, for the next start on the same directory.
        self.record = folder / "primary"
        self.primary = self.servers[0]
        self.looked_at = 0.0
        self.answered_at = 0.0
        self.is_waiting = False

    @staticmethod
    def missing() -> str | None:
        """What is missing on this machine."""
        return None if postgres.find() else "PostgreSQL is not installed (Debian: postgresql)"

    def store_url(self) -> str:
        hosts = ",".join(f"{server.address}:{server.port}" for server in self.servers)
        parameters = f"user={USER}&target_session_attrs=read-write"
        return f"postgresql://{hosts}/{DATABASE}?{parameters}"

    def start(self) -> None:
        is_new = not self.record.exists()
        if is_new:
            self.primary.make_primary()
            self._remember(self.primary)
        else:
            self.primary = self.servers[int(self.record.read_text())]
        self._start_primary()
        self._start_standbys()
        if is_new:
            self.primary.sql(f'create database "{DATABASE}"')

    def _start_primary(self) -> None:
        self.primary.process.start()
        wait_until(f"{self.primary.name} starts", START_S, self.primary.takes_statements)
        self.answered_at = time.monotonic()

    def _start_standbys(self) -> list[str]:
        """Start the standbys that do not run, and wait until each of them receives."""
        ended = [s for s in self.servers if s is not self.primary and not s.process.runs()]
        for server in ended:
            if server.is_standby():
                server.follow(self.primary)
            else:
                server.make_standby(self.primary)
            server.process.start()
        for server in ended:
            wait_until(f"{server.name} starts", START_S, server.takes_statements)
        return [server.name for server in ended]

    def start_ended(self) -> list[str]:
        started = []
        if not self.primary.process.runs():
            self._start_primary()
            started.append(self.primary.name)
        self.is_waiting = False
        return started + self._start_standbys()

    def leader(self) -> int:
        return self.servers.index(self.primary)

    def look(self) -> None:
        """Fail over if the primary is lost: its process has ended, or it has been silent for too long."""
        primary = self.primary
        now = time.monotonic()
        if primary.process.runs() and now - self.looked_at < LOOK_PAUSE_S:
            return
        self.looked_at = now
        if primary.process.runs():
            if primary.answers():
                self.answered_at = time.monotonic()
            if time.monotonic() - self.answered_at < SILENCE_S:
                return
        standbys = [s for s in self.servers if s is not primary and s.process.runs()]
        if len(standbys) < ENGINE_MEMBERS - 1:
            if not self.is_waiting:
                text = "the primary is lost and a standby is missing, so nobody may be promoted"
                print(f"cluster: {text}", file=sys.stderr, flush=True)
            self.is_waiting = True
            return
        self._fail_over(standbys)

    def _fail_over(self, standbys: list[Member]) -> None:
        began = time.monotonic()
        lost = self.primary
        lost.process.kill()
        # What this finds when it is started again is a directory of its own past, which may have more
        # than was acknowledged.
        positions = {}
        end = began + START_S
        while len(positions) < len(standbys) and time.monotonic() < end:
            for standby in standbys:
                try:
                    position = standby.position()
                except servers.ServerError:
                    return  # It ended too. The next look says what to do.
                if position is not None:
                    positions[standby.name] = position
        chosen = max(standbys, key=lambda standby: positions.get(standby.name, 0))
        chosen.sql("select pg_promote(true, 30)")
        self._remember(chosen)
        for standby in standbys:
            if standby is not chosen:
                standby.follow(chosen)
        self.answered_at = time.monotonic()
        took = time.monotonic() - began
        text = f"{lost.name} is lost; {chosen.name} was promoted within {took:.2f} s"
        print(f"cluster: {text}", file=sys.stderr, flush=True)

    def _remember(self, primary: Member) -> None:
        self.primary = primary
        written = self.record.with_suffix(".new")
        written.write_text(str(self.servers.index(primary)))
        written.rename(self.record)

    def stop(self) -> None:
        for member in self.members:
            member.send(signal.SIGCONT)
        # Standbys first, so that the primary's end reaches no standby that takes it for a loss.
        for server in sorted(self.servers, key=lambda server: server is self.primary):
            server.process.send(signal.SIGINT)
            server.process.wait_for_end(20)
