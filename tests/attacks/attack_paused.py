"""A process that stands still, as in a snapshot of its machine, must not lose what arrived meanwhile."""

import os
import signal
import socket
import subprocess
import time

import launch
from case import Case

# How long a connection is kept, and how long the process stands still.
KEPT_S = 0.5
PAUSE_S = 0.8
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b'{"name": true}'
HEAD = (
    b"POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
)


def times() -> dict[str, object]:
    """Time-outs that are far shorter than the pause. Older releases have one for first and for later heads."""
    known = subprocess.run([launch.program(), "config", "sample"], capture_output=True, text=True)
    options = ["placement_head_timeout_ms", "placement_body_timeout_ms"]
    if "keep_alive_timeout_ms" in known.stdout:
        options.append("placement_keep_alive_timeout_ms")
    return {name: int(KEPT_S * 1000) for name in options}


def receive(link: socket.socket) -> bytes:
    try:
        return link.recv(65536)
    except OSError as error:
        return repr(error).encode()


def run(case: Case) -> None:
    rounds = 5 if case.short else 20
    with case.up(hosts=0, **times()) as site:
        answered = with_body = 0
        detail: list[bytes] = []
        for _ in range(rounds):
            kept = socket.create_connection(("127.0.0.1", site.placement), 10)
            kept.sendall(REQUEST)
            assert receive(kept).startswith(b"HTTP/1.1 200")
            sending = socket.create_connection(("127.0.0.1", site.placement), 10)
            sending.sendall(HEAD % len(BODY))
            assert receive(sending).startswith(b"HTTP/1.1 100")
            os.kill(site.pid, signal.SIGSTOP)
            try:
                time.sleep(PAUSE_S / 2)
                kept.sendall(REQUEST)
                sending.sendall(BODY)
                time.sleep(PAUSE_S / 2)
            finally:
                os.kill(site.pid, signal.SIGCONT)
            answer, answer_to_body = receive(kept), receive(sending)
            answered += answer.startswith(b"HTTP/1.1 200")
            # 400 and not 408: the body is wrong, but not late.
            with_body += answer_to_body.startswith(b"HTTP/1.1 400")
            detail += [answer[:60], answer_to_body[:60]]
            kept.close()
            sending.close()
        name = f"{answered} of {rounds} requests that arrived in a pause on kept connections answered"
        case.check(name, answered == rounds, detail)
        name = f"{with_body} of {rounds} bodies that arrived in a pause read"
        case.check(name, with_body == rounds, detail)
