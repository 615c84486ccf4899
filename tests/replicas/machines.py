"""Machines made of namespaces, each with a systemd of its own, a network card, and a shell of root's.

Each has files of its own below FOLDER/NAME, on top of this machine's packages. `machine/boot.sh` makes them. They are on
one network, which nobody else is on. Nothing of this machine changes but FOLDER, two network namespaces' names for
each machine in /run/netns, and a control group for each, which are gone afterwards. Needs root.
"""

import contextlib
import ctypes
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import threading
import time

import servers

HERE = pathlib.Path(__file__).resolve().parent
CLONE_NEWNET = 0x40000000
SYSTEMD = pathlib.Path("/lib/systemd/systemd")
BOOT_S = 60
# What the machines' packages are called in Debian, by a file that each has.
NEEDED = {
    "/lib/systemd/systemd": "systemd",
    "/lib/systemd/system/etcd.service": "etcd-server",
    "/usr/bin/etcdctl": "etcd-client",
    "/lib/systemd/system/haproxy.service": "haproxy",
    "/usr/bin/htpasswd": "apache2-utils",
    "/usr/bin/curl": "curl",
    "/usr/sbin/ip": "iproute2",
}


def missing() -> str | None:
    """What is missing to make machines."""
    if os.geteuid() != 0:
        return "namespaces need root"
    packages = [package for file, package in NEEDED.items() if not os.path.exists(file)]
    return f"not installed: {' '.join(packages)} (Debian)" if packages else None


def _run(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise servers.ServerError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def _control_groups() -> pathlib.Path:
    """Where control groups of the second version are."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(where)
    raise servers.ServerError("there are no control groups of version 2")


class Network:
    """A bridge in a network namespace of this process's own, for all machines."""

    def __enter__(self) -> "Network":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise servers.ServerError(f"unshare: {os.strerror(ctypes.get_errno())}")
        _run(*"ip link add hub type bridge".split())
        _run(*"ip link set hub up".split())
        return self

    def __exit__(self, *_: object) -> None:
        """The namespace ends with this process."""


class Shell:
    """A shell of root's on a machine, which keeps its variables and functions."""

    def __init__(self, init: int) -> None:
        command = ["nsenter", "--target", str(init), "--all", "--wd=/root", "env", "-i", "HOME=/root"]
        command += ["PATH=/run/machines/stand-ins:/usr/sbin:/usr/bin:/sbin:/bin", "bash"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def run(self, commands: str, timeout_s: float) -> tuple[bool, str]:
        """Run commands one after the other. Gives whether each of them succeeded, and what they printed."""
        script = pathlib.Path("/run/commands")
        # A command that fails is a failure of all, also if others follow. Conditions may fail.
        text = (
            f"cat >{script} <<'END-OF-COMMANDS'\n{commands}\nEND-OF-COMMANDS\n"
            "failed=0; set -o pipefail\n"
            "trap 'failed=$?; echo \"exit code $failed: $BASH_COMMAND\"' ERR\n"
            f"source {script} </dev/null\ntrap - ERR; cd /root; echo; echo commands-ended $failed\n"
        )
        self.process.stdin.write(text)
        self.process.stdin.flush()
        printed = []
        end = time.monotonic() + timeout_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return False, "".join(printed) + f"(not over after {timeout_s:.0f} s)\n"
            if line is None:
                return False, "".join(printed) + "(the shell ended)\n"
            if line.startswith("commands-ended "):
                return line.split()[1] == "0", "".join(printed)
            printed.append(line)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Machine:
    """One machine. What it has on its disk outlives ``power_off``."""

    def __init__(self, name: str, address: str, folder: pathlib.Path) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.namespace = f"page{os.getpid()}-{name}"
        self.group = _control_groups() / self.namespace
        self.running: subprocess.Popen | None = None
        self.shell: Shell | None = None

    def power_on(self) -> None:
        card = f"to-{self.name}"
        _run("ip", "netns", "add", self.namespace)
        _run(*f"ip link add {card} type veth peer name eth0 netns {self.namespace}".split())
        _run("ip", "link", "set", card, "master", "hub", "up")
        inside = ["ip", "-n", self.namespace]
        _run(*inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run(*inside, "link", "set", device, "up")
        self.group.mkdir(exist_ok=True)
        command = ["ip", "netns", "exec", self.namespace, "unshare"]
        command += ["--pid", "--mount", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"]
        command += ["--mount-proc", "--propagation", "private"]
        command += ["sh", str(HERE / "machine/boot.sh"), self.name, str(self.folder)]
        # It has to be in its control group before it gets a namespace for these.
        enter = f"echo $$ >{self.group}/cgroup.procs; exec \"$@\""
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.running = subprocess.Popen(
                ["sh", "-c", enter, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: servers.die_with_parent(signal.SIGKILL),
            )
        self.renew_shell()

    def renew_shell(self) -> None:
        """Get another shell, where the present one does not come back from a command."""
        if self.shell is not None:
            self.shell.close()
        self.shell = Shell(self._init())

    def _init(self) -> int:
        """The process id of the machine's systemd, once that takes orders."""
        end = time.monotonic() + BOOT_S
        pid = self.running.pid
        while time.monotonic() < end and self.running.poll() is None:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if children and pathlib.Path(f"/proc/{children[0]}/root/run/systemd/private").exists():
                return int(children[0])
            time.sleep(0.1)
        tail = (self.folder / f"{self.name}.log").read_text(errors="replace")[-2000:]
        raise servers.ServerError(f"{self.name} does not boot\n{tail}")

    def power_off(self) -> None:
        """End everything at once, and let nobody on the network know."""
        if self.running is None:
            return
        subprocess.run(["ip", "link", "delete", f"to-{self.name}"], check=False)
        (self.group / "cgroup.kill").write_text("1")
        self.running.kill()
        self.running.wait()
        self.running = None
        if self.shell is not None:
            self.shell.close()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def remove(self) -> None:
        self.power_off()
        groups = sorted(self.group.glob("**/"), reverse=True)
        for group in [*groups, self.group]:
            # It is only there, and busy, while its processes are still ending.
            for _ in range(50):
                try:
                    group.rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    time.sleep(0.1)
                    continue
                break


def install(folder: pathlib.Path, program: pathlib.Path, packaging: pathlib.Path) -> None:
    """Put what the machines get besides packages below FOLDER."""
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/share").mkdir()
    shutil.copy2(program, folder / "usr/bin/placewright")
    shutil.copytree(packaging, folder / "usr/share/placewright")
    shutil.copytree(HERE / "machine", folder / "stand-ins", ignore=shutil.ignore_patterns("boot.sh"))
