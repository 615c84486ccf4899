"""Processes that a cluster consists of: started, watched, ended, each with a file that has its process id."""

import os
import pathlib
import pwd
import signal
import subprocess
import time

import servers

# The account under which programs run that refuse to run as root.
UNPRIVILEGED = ("postgres", "nobody")


def unprivileged_account() -> pwd.struct_passwd:
    """The account for programs that refuse to run as root."""
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise servers.ServerError(f"there is no account {' or '.join(UNPRIVILEGED)}")


def without_root(command: list[str]) -> list[str]:
    """The command as an account that is not root; it may read what root may, so that it finds its directory anywhere."""
    if os.geteuid() != 0:
        return command
    account = unprivileged_account()
    return [
        "setpriv",
        *(f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"),
        *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
        *("--pdeathsig=KILL", "--"),
        *command,
    ]


class Process:
    """A program that runs until it is stopped, in a process group of its own.

    ``pid_path`` has its process id while it runs, and does not exist while it does not.
    """

    def __init__(self, name: str, command: list[str], folder: pathlib.Path) -> None:
        self.name = name
        self.command = command
        self.pid_path = folder / f"{name}.pid"
        self.log_path = folder / f"{name}.log"
        self.running: subprocess.Popen | None = None

    def start(self) -> None:
        parent = os.getpid()

        def in_child() -> None:
            servers.die_with_parent(signal.SIGKILL)
            for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            if os.getppid() != parent:
                os._exit(1)

        with open(self.log_path, "ab") as log:
            try:
                self.running = subprocess.Popen(
                    self.command,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=in_child,
                )
            except OSError as error:
                raise servers.ServerError(f"{self.name}: {error}") from error
        # In one step, so that nobody reads half of a number.
        written = self.pid_path.with_suffix(".new")
        written.write_text(f"{self.running.pid}\n")
        written.rename(self.pid_path)

    def runs(self) -> bool:
        return self.running is not None

    def notice_end(self) -> str | None:
        """If it has ended since it was last looked at: in words how. Its file with the process id goes."""
        if self.running is None or self.running.poll() is None:
            return None
        code = self.running.returncode
        self._forget()
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def _forget(self) -> None:
        self.pid_path.unlink(missing_ok=True)
        # What it started may have outlived it. Its group has its number as long as one of it lives.
        try:
            os.killpg(self.running.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.running = None

    def send(self, signum: int) -> None:
        if self.running is not None:
            self.running.send_signal(signum)

    def kill(self) -> None:
        """End it and all that it started, at once."""
        if self.running is None:
            return
        try:
            os.killpg(self.running.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.running.wait()
        self._forget()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until it has ended after a signal; it is killed when that takes longer."""
        if self.running is None:
            return
        try:
            self.running.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._forget()

    def log_tail(self, lines: int = 12) -> str:
        try:
            text = self.log_path.read_bytes()[-20_000:].decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def wait_until(what: str, seconds: float, holds, pause: float = 0.05) -> None:
    """Wait until ``holds()`` is true; a ServerError that names ``what`` if it does not become true."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise servers.ServerError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
