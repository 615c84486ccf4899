"""Run by `run --boot` inside of its systemd: starts the units, and checks that they are confined and work.

  inside.py PROGRAM FOLDER

Each check is a line of FOLDER/checks; FOLDER/result says that it came to an end.
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
RESTARTS = 8
CELL = "ce110000-0000-4000-8000-000000000001"
PKI = "/var/lib/placewright/pki"
CONFIG = f"""
[compute]
listen = "127.0.0.1:8774"
[control]
listen = "127.0.0.1:8775"
cells = ["c1={CELL}@127.0.0.1:8780"]
authority_path = "{PKI}"
[cell]
uuid = "{CELL}"
[agent]
driver = "command"
commands = "/etc/placewright/driver"
"""
DRIVER = {
    "inspect": """memory_mb=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
cat <<JSON
{"hosts": [{"name": "node-1", "inventories": {"VCPU": {"total": 4}, "DISK_GB": {"total": 9},
  "MEMORY_MB": {"total": $memory_mb}}}]}
JSON
""",
    "list": """all=
for file in "$PLACEWRIGHT_STATE_DIR"/guest.*; do
    [ -s "$file" ] || continue
    name=${file##*/guest.}
    all="$all${all:+, }{\\"host\\": \\"node-1\\", \\"instance\\": \\"${name%.*}\\", \\"number\\": ${name##*.}}"
done
echo "{\\"guests\\": [$all]}"
""",
    "spawn": """cat > /dev/null
file=$PLACEWRIGHT_STATE_DIR/guest.$PLACEWRIGHT_INSTANCE.$PLACEWRIGHT_GUEST
[ -s "$file" ] && exit 0
setsid sleep 100000 > /dev/null 2>&1 < /dev/null &
echo $! > "$file"
""",
    "destroy": """cat > /dev/null
file=$PLACEWRIGHT_STATE_DIR/guest.$PLACEWRIGHT_INSTANCE.$PLACEWRIGHT_GUEST
[ -s "$file" ] && kill "$(cat "$file")"
rm -f "$file"
""",
}


def check(name: str, ok: bool, detail: object = "") -> bool:
    text = str(detail).replace("\n", "\\n").replace("\t", " ")
    with open(FOLDER / "checks", "a") as checks:
        checks.write(f"{'ok' if ok else 'FAILED'} {name}\t{text[-3000:]}\n")
    return ok


def run(*words: str, text: str | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, input=text, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def log_of(unit: str) -> str:
    path = pathlib.Path(f"/run/test/{unit}.log")
    return path.read_text() if path.exists() else ""


def start(unit: str) -> None:
    try:
        run("systemctl", "start", unit)
        check(f"{unit} starts", True)
    except RuntimeError as error:
        check(f"{unit} starts", False, f"{error}\n{log_of(unit)}")
        raise


def ask(method: str, path: str, body: object = None, port: int = 8774) -> tuple[int, dict]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    request.add_header("X-Auth-Token", "admin")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        return error.code, {"error": error.read().decode()}


def until(what: str, is_so) -> object:
    end = time.monotonic() + 60
    while True:
        found = is_so()
        if found or time.monotonic() > end:
            check(what, bool(found))
            return found
        time.sleep(0.2)


def pid_of(unit: str) -> int:
    return int(run("systemctl", "show", "--property=MainPID", "--value", unit))


def check_cage(unit: str) -> None:
    """Checks how the kernel confines the process of a unit."""
    status = pathlib.Path(f"/proc/{pid_of(unit)}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    check(f"{unit}: it is not root", fields["Uid"].split()[0] != "0", fields["Uid"])
    check(f"{unit}: it has no capabilities", int(fields["CapBnd"], 16) == 0, fields["CapBnd"])
    check(f"{unit}: it gets no privileges", fields["NoNewPrivs"] == "1")
    check(f"{unit}: its calls are filtered", fields["Seccomp"] == "2")
    check(f"{unit}: its files are its own", fields["Umask"] == "0077", fields["Umask"])


def readable_by_others(folder: str) -> list[str]:
    """The paths below a folder that other users could read."""
    paths = [pathlib.Path(folder), *pathlib.Path(folder).rglob("*")]
    return [str(path) for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]


class Load(threading.Thread):
    """A client that works all the time, on a kept connection or on a new one for each request."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps, self.over, self.answered, self.wrong = keeps, False, 0, []

    def run(self) -> None:
        link = None
        while not self.over:
            link = link or http.client.HTTPConnection("127.0.0.1", 8778, timeout=60)
            try:
                link.request("GET", "/resource_providers", headers={"X-Auth-Token": "admin"})
                answer = link.getresponse()
                answer.read()
                if answer.status != 200:
                    self.wrong.append(f"status {answer.status}")
                self.answered += 1
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                link = None
            if not self.keeps and link:
                link.close()
                link = None


def control() -> None:
    run(PROGRAM, "pki", "init", "--pki", PKI, "--installation", "caged")
    start("placewright")
    check_cage("placewright")
    clients = [Load(number % 2 == 0) for number in range(8)]
    for client in clients:
        client.start()
    before = pid_of("placewright")
    for _ in range(RESTARTS):
        time.sleep(0.3)
        run("systemctl", "restart", "placewright")
    run("systemctl", "reload", "placewright")
    time.sleep(0.3)
    for client in clients:
        client.over = True
        client.join()
    wrong = [text for client in clients for text in client.wrong]
    answered = sum(client.answered for client in clients)
    check(f"{RESTARTS} restarts under load: all of {answered} requests are answered", not wrong, wrong[:5])
    check("it is another process", pid_of("placewright") != before)
    lonely = "no other process can take this one's place"
    check("it offers a take-over", lonely not in log_of("placewright"))
    check("it reads files again when told to", "SIGHUP" in log_of("placewright"))


def enrol(role: str, *names: str) -> None:
    """Enrols a role: root makes the word of the invitation, and the role's own user uses it."""
    word = run(PROGRAM, "pki", "invite", "--pki", PKI, "--role", role, "--cell", "c1", *names)
    state = f"/var/lib/placewright-{role}"
    file = pathlib.Path(state, "word")
    file.write_text(word)
    file.chmod(0o600)
    shutil.chown(file, f"placewright-{role}")
    words = [PROGRAM, role, "--enrol", str(file), f"--{role}-identity-path", f"{state}/identity"]
    words += [f"--{role}-{'store' if role == 'cell' else 'state'}-path", f"{state}/{role}"]
    words = ["runuser", "-u", f"placewright-{role}", "--", *words]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    until(f"{role}: enrolled", lambda: pathlib.Path(f"{state}/identity/identity.pem").exists())
    process.terminate()
    log = process.stdout.read().decode()
    check(f"{role}: the word is in no log", word.strip() not in log, log)
    process.wait(60)


def guests() -> list[int]:
    files = pathlib.Path("/var/lib/placewright-agent/agent").rglob("guest.*")
    return [int(file.read_text()) for file in files]


def is_there(pid: int) -> bool:
    return pathlib.Path(f"/proc/{pid}").exists()


def roles() -> None:
    enrol("cell")
    start("placewright-cell")
    enrol("agent", "--host", "node-1")
    start("placewright-agent")
    for unit in ("placewright-cell", "placewright-agent"):
        check_cage(unit)
    is_up = lambda: any(  # noqa: E731
        host["state"] == "up" for host in ask("GET", "/v2.1/os-hypervisors/detail")[1].get("hypervisors", [])
    )
    until("the host is up", is_up)
    flavor = {"id": "small", "name": "small", "vcpus": 1, "ram": 64, "disk": 1}
    ask("POST", "/v2.1/flavors", {"flavor": flavor})
    image = "6a1b5a0e-0000-4000-8000-000000000001"
    server = {"name": "caged", "flavorRef": "small", "imageRef": image, "networks": "none"}
    status, made = ask("POST", "/v2.1/servers", {"server": {**server, "networks": []}})
    check("a server is accepted", status == 202, made)
    server = f"/v2.1/servers/{made['server']['id']}"
    until("it is built by an executable", lambda: ask("GET", server)[1]["server"]["status"] == "ACTIVE")
    [guest] = guests()
    status = pathlib.Path(f"/proc/{guest}/status").read_text()
    check("its guest is in the same cage", re.search(r"^Seccomp:\t2$", status, re.M) is not None)
    run("systemctl", "restart", "placewright-agent")
    until("the host is up after a restart of its agent", is_up)
    check("the guest outlived it", is_there(guest) and guests() == [guest])
    ask("DELETE", server)
    until("a deleted server's guest is gone", lambda: not is_there(guest) and not guests())


def revoke() -> None:
    """Root revokes; the service, which is another user, has to notice."""
    run(PROGRAM, "pki", "revoke", "--pki", PKI, "--name", "placewright://caged/cell/c1/host/node-1")
    until("a revocation by root is read by control", lambda: "were read again" in log_of("placewright"))
    until("the cell refuses what was revoked", lambda: "was refused" in log_of("placewright-cell"))


def main() -> None:
    driver = pathlib.Path("/etc/placewright/driver")
    driver.mkdir(parents=True)
    (driver.parent / "placewright.toml").write_text(CONFIG)
    for name, text in DRIVER.items():
        (driver / name).write_text(f"#!/bin/sh\nset -eu\n{text}")
        (driver / name).chmod(0o755)
    control()
    roles()
    revoke()
    for role in ("placewright", "placewright-cell", "placewright-agent"):
        check(f"{role}: nobody else reads its files", not readable_by_others(f"/var/lib/{role}/."), readable_by_others(f"/var/lib/{role}/."))
        errors = [line for line in log_of(role).splitlines() if " ERROR " in line]
        check(f"{role}: no errors in its log", not errors, "\n".join(errors[:5]))


if __name__ == "__main__":
    os.chdir("/")
    try:
        main()
    except Exception:
        check("no exception", False, traceback.format_exc())
    for unit in ("placewright", "placewright-cell", "placewright-agent"):
        path = pathlib.Path(f"/run/test/{unit}.log")
        if path.exists():
            (FOLDER / path.name).write_bytes(path.read_bytes())
    (FOLDER / "result").write_text("done\n")
