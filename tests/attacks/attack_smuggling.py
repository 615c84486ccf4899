"""Requests whose end two readers would see at different places."""

import socket

from case import Case

HEAD = b"Host: a\r\nX-Auth-Token: admin\r\n"
CASES = {
    "two lengths": b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length and chunks": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    "a length with a sign": b"POST / HTTP/1.1\r\n" + HEAD + b"Content-Length: +4\r\n\r\nabcd",
    "a space before the colon": b"GET / HTTP/1.1\r\n" + HEAD + b"Content-Length : 4\r\n\r\nabcd",
    "a folded header": b"GET / HTTP/1.1\r\n" + HEAD + b"X-A: b\r\n Content-Length: 4\r\n\r\nabcd",
    "chunked, spelled wrongly": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\n" + HEAD + b"X-A: b\0c\r\n\r\n",
}


def exchange(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := link.recv(65536):
                answer += more
        except OSError:
            pass
        return answer


def run(case: Case) -> None:
    with case.up(hosts=0) as site:
        for port, api in ((site.placement, "placement"), (site.compute, "compute")):
            for name, data in CASES.items():
                answer = exchange(port, data)
                answers = answer.count(b"HTTP/1.1 ")
                ok = answers <= 1 and b"smuggled" not in answer
                case.check(f"{name} to {api}: one answer at most", ok, answer[:400])
