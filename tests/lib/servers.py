"""Start and stop the server under test."""

import ctypes
import http.client
import os
import shlex
import signal
import socket
import subprocess
import time

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    """The server did not come up."""


def die_with_parent(signum):
    """Have the kernel send ``signum`` to this process when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def port_is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def fill_in(template, values):
    """Split a command line and fill in its {placeholders}."""
    words = shlex.split(template)
    for name, value in values.items():
        words = [w.replace("{%s}" % name, str(value)) for w in words]
    return words


class Server:
    """One server process, in a process group of its own."""

    def __init__(self, command, port, log_path, start_timeout=30, stop_timeout=5):
        self.command = command
        self.port = port
        self.log_path = log_path
        self.start_timeout = start_timeout
        self.stop_timeout = stop_timeout
        self.process = None

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    def start(self, wait=True):
        parent = os.getpid()

        def in_child():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        with open(self.log_path, "ab") as log:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=in_child,
                )
            except OSError as exc:
                raise ServerError(
                    "cannot run %s: %s" % (shlex.join(self.command), exc)
                ) from exc
        if wait:
            self.wait_until_it_answers()

    def wait_until_it_answers(self):
        end = time.monotonic() + self.start_timeout
        pause = 0.01
        while True:
            status = self.ended_by_itself()
            if status is not None:
                raise ServerError("the server %s before it answered" % status)
            if self._answers():
                return
            if time.monotonic() > end:
                raise ServerError(
                    "no answer on %s within %g seconds" % (self.url, self.start_timeout)
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)

    def _answers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2.0)
        try:
            connection.request("GET", "/", headers={"connection": "close"})
            connection.getresponse().read()
            return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self):
        """End the process at once, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        self.process = None

    def stop(self):
        """End the process, and whatever it started in its process group."""
        if self.process is None:
            return
        if self.ended_by_itself() is None:
            self.process.send_signal(signal.SIGTERM)
            end = time.monotonic() + self.stop_timeout
            while self.ended_by_itself() is None and time.monotonic() < end:
                time.sleep(0.01)
        # The process has not been reaped yet, so its number, which is also
        # that of its group, cannot have been given to anybody else.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass
        self.process = None

    def ended_by_itself(self):
        """None while the process runs, else in words how it ended.

        The process is left for stop() to reap.
        """
        if self.process is None:
            return None
        info = os.waitid(
            os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        )
        if info is None:
            return None
        if info.si_code == os.CLD_EXITED:
            return "ended with exit status %d" % info.si_status
        return "was ended by signal %d" % info.si_status

    def log_tail(self, lines=25, limit=4000):
        try:
            with open(self.log_path, "rb") as f:
                f.seek(0, os.SEEK_END)
                f.seek(max(0, f.tell() - 64 * 1024))
                text = f.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])[-limit:]
