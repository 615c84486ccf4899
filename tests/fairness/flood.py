"""A flood: connections of some projects that send one request after the other, as fast as they are answered."""

import json
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

from generator import Reader
from wishes import IMAGE, pattern, server

# A request that was answered is followed by the next one, also after 429: nobody here waits as asked.
READ_BYTES = 1 << 18


def request(token: str, method: str, path: str, body: object = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} /v2.1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: {token}\r\n"
        "X-Roles: member,reader\r\nAccept: application/json\r\nOpenStack-API-Version: compute 2.96\r\n"
    )
    if content:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return (head + "\r\n").encode() + content


def lists(token: str) -> Iterator[bytes]:
    """Lists of all servers, each matched with expressions that take long."""
    while True:
        yield request(token, "GET", f"/servers/detail?limit=1000&name={pattern().replace('+', '%2B')}")


def batches(token: str) -> Iterator[bytes]:
    """A thousand servers at once, of which some may find no host, again and again."""
    while True:
        yield request(token, "POST", "/servers", server(max_count=1000, min_count=1))


def all_or_none(token: str) -> Iterator[bytes]:
    """A thousand servers at once, all of them or none, again and again."""
    while True:
        yield request(token, "POST", "/servers", server(max_count=1000))


def large_batches(token: str) -> Iterator[bytes]:
    """As many servers at once as one may have with much to store for each."""
    body = server(max_count=100, min_count=1, user_data="QUFB" * 16000)
    while True:
        yield request(token, "POST", "/servers", body)


def bodies(token: str) -> Iterator[bytes]:
    """Servers with as much to read as one may have."""
    metadata = {f"{n:0200}": "v" * 250 for n in range(128)}
    body = server(user_data="QUFB" * 16000, metadata=metadata)
    while True:
        yield request(token, "POST", "/servers", body)


def singles(token: str) -> Iterator[bytes]:
    """One server after the other: what everybody does."""
    body = {"name": "one", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}
    while True:
        yield request(token, "POST", "/servers", {"server": body})


def everything(token: str) -> Iterator[bytes]:
    """All of it in turn."""
    kinds = [kind(token) for kind in (lists, singles, bodies, batches, all_or_none)]
    while True:
        for kind in kinds:
            yield next(kind)


FLOODS: dict[str, Callable[[str], Iterator[bytes]]] = {
    flood.__name__: flood for flood in (lists, batches, all_or_none, large_batches, bodies, singles, everything)
}


class Connection:
    """One connection with one request under way."""

    def __init__(self, port: int, requests: Iterator[bytes]) -> None:
        self.port = port
        self.requests = requests
        self.open()

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setblocking(False)
        self.reader = Reader()
        self.unsent = next(self.requests)

    def write(self) -> bool:
        """Sends what it can; whether something is left."""
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            pass
        return bool(self.unsent)

    def read(self) -> list[int]:
        """The statuses of what was answered. The next request waits to be sent then."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError
        statuses = []
        for status, _, closes in self.reader.answers(data):
            statuses.append(status)
            self.unsent = next(self.requests)
            if closes:
                raise ConnectionResetError
        return statuses


def flood(port: int, kind: str, tokens: list[str], connections: int, seconds: float) -> Counter[int]:
    """Floods with so many connections of each token; how many of each status came back."""
    selector = selectors.DefaultSelector()
    statuses: Counter[int] = Counter()

    def watch(connection: Connection) -> None:
        left = connection.write()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
        selector.register(connection.socket, events, connection)

    for token in tokens:
        for _ in range(connections):
            watch(Connection(port, FLOODS[kind](token)))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, events in selector.select(timeout=0.1):
            connection = key.data
            try:
                if events & selectors.EVENT_READ:
                    statuses.update(connection.read())
                left = bool(connection.unsent) and connection.write()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
                if wanted != key.events:
                    selector.modify(connection.socket, wanted, connection)
            except OSError:
                statuses[0] += 1
                selector.unregister(connection.socket)
                connection.socket.close()
                connection.open()
                watch(connection)
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    return statuses
