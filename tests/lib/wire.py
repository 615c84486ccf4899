"""A strict HTTP/1.1 client on one kept-open connection.

It sends exactly the bytes that it is given, and accepts only answers that are
well formed: whatever a lenient client would overlook is a ``WireError`` here.
"""

import dataclasses
import re
import select
import socket
import time

STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: ([^\r\n]*))?\Z")
HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
HEAD_BYTES_MAX = 64 * 1024
BODYLESS = {204, 304}


class WireError(Exception):
    """The peer sent what is not HTTP, or closed the connection early."""


class Closed(WireError):
    """The peer closed the connection before it answered anything."""


@dataclasses.dataclass
class Response:
    """One answer; header names are in lower case, in the order received."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    seconds: float
    closes: bool

    def get(self, name: str) -> str | None:
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Connection:
    """Opens itself when it is needed, and again after it was closed."""

    def __init__(self, host: str, port: int, timeout: float = 30.0) -> None:
        self.address = (host, port)
        self.timeout = timeout
        self.socket: socket.socket | None = None
        # What was received and not read yet.
        self.rest = b""
        self.began = 0.0

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.rest = b""

    def send(self, data: bytes) -> None:
        if self.socket is None:
            self.socket = socket.create_connection(self.address, self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.rest = b""
        self.began = time.perf_counter()
        self.socket.sendall(data)

    def is_idle(self) -> bool:
        """Whether it is open, and neither closed by the peer nor with bytes left to read."""
        if self.socket is None:
            return False
        readable, _, _ = select.select([self.socket], [], [], 0)
        return not readable and not self.rest

    def exchange(self, data: bytes, method: str) -> Response:
        self.send(data)
        return self.receive(method)

    def exchange_with_retry(self, data: bytes, method: str) -> Response:
        """Exchange; if that fails on a connection that was open before, exchange again on a new one.

        Only for requests that may be repeated: the first attempt may have arrived.
        """
        fresh = self.socket is None
        try:
            return self.exchange(data, method)
        except (WireError, OSError):
            self.close()
            if fresh:
                raise
        return self.exchange(data, method)

    def receive(self, method: str) -> Response:
        try:
            response = self._receive(method)
        except (WireError, OSError):
            self.close()
            raise
        if response.closes:
            self.close()
        return response

    def _receive_more(self) -> bool:
        """Receive bytes into ``rest``; whether there were any."""
        data = self.socket.recv(256 * 1024)
        self.rest += data
        return bool(data)

    def _receive(self, method: str) -> Response:
        while True:
            status, minor, headers = self._head()
            if status >= 200:
                break
        names = dict(headers)
        connection = names.get("connection", "").lower()
        closes = "close" in connection or (minor == 0 and connection != "keep-alive")
        lengths = [value for name, value in headers if name == "content-length"]
        if len(lengths) > 1:
            raise WireError(f"{len(lengths)} Content-Length headers")
        if method == "HEAD" or status in BODYLESS:
            body = b""
            if status == 204 and lengths not in ([], ["0"]):
                raise WireError(f"204 with Content-Length {lengths[0]}")
        elif "transfer-encoding" in names:
            if lengths:
                raise WireError("Transfer-Encoding and Content-Length")
            if names["transfer-encoding"].lower() != "chunked":
                raise WireError(f"Transfer-Encoding {names['transfer-encoding']}")
            body = self._chunks()
        elif lengths:
            if not lengths[0].isdigit():
                raise WireError(f"Content-Length {lengths[0]!r}")
            body = self._exactly(int(lengths[0]))
        elif closes:
            while self._receive_more():
                pass
            body, self.rest = self.rest, b""
        else:
            raise WireError("neither a length nor a closed connection")
        seconds = time.perf_counter() - self.began
        return Response(status, headers, body, seconds, closes)

    def _head(self) -> tuple[int, int, list[tuple[str, str]]]:
        while b"\r\n\r\n" not in self.rest:
            if len(self.rest) > HEAD_BYTES_MAX:
                raise WireError("a head without an end")
            if not self._receive_more():
                if not self.rest:
                    raise Closed("closed without an answer")
                raise WireError(f"closed within the head: {self.rest[:80]!r}")
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        match = STATUS_LINE.match(lines[0])
        if not match:
            raise WireError(f"status line {lines[0][:80]!r}")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not HEADER_NAME.match(name) or b"\n" in value:
                raise WireError(f"header line {line[:80]!r}")
            headers.append((name.decode().lower(), value.strip().decode("latin-1")))
        return int(match[2]), int(match[1]), headers

    def _exactly(self, size: int) -> bytes:
        while len(self.rest) < size:
            if not self._receive_more():
                raise WireError(f"closed {size - len(self.rest)} bytes early")
        body, self.rest = self.rest[:size], self.rest[size:]
        return body

    def _chunks(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self.rest:
                if not self._receive_more():
                    raise WireError("closed within a chunk's size")
            line, self.rest = self.rest.split(b"\r\n", 1)
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise WireError(f"chunk size {line[:40]!r}") from error
            body += self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise WireError("a chunk without its end")
            if size == 0:
                return body
