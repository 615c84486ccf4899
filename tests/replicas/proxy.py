"""A round-robin HTTP proxy for tests: each request goes to the next replica.

A replica that refuses the connection is passed over.  A request that was sent and got no
answer is answered with 502: whether to repeat it is for the client to decide.
"""

import asyncio
import itertools
from collections.abc import Iterator

HEAD_BYTES_MAX = 64 * 1024
COPY_BYTES = 64 * 1024
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
WITHOUT_BODY = (204, 304)

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Head:
    """The first line and the headers of a message."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        lines = data.decode("latin-1").split("\r\n")
        self.words = lines[0].split(" ", 2)
        self.headers: dict[str, str] = {}
        for line in filter(None, lines[1:]):
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def is_chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    def length(self) -> int | None:
        text = self.headers.get("content-length")
        return None if text is None else int(text)

    def is_length_wrong(self) -> bool:
        text = self.headers.get("content-length", "0")
        return not (text.isascii() and text.isdecimal())

    def closes(self) -> bool:
        return "close" in self.headers.get("connection", "").lower()


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next message's head; None when there is none."""
    try:
        return Head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None


async def copy_exactly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    while count > 0:
        data = await reader.read(min(count, COPY_BYTES))
        if not data:
            raise ConnectionError("closed within a body")
        writer.write(data)
        await writer.drain()
        count -= len(data)


async def copy_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
        size = int(line.split(b";")[0], 16)
        await copy_exactly(reader, writer, size + 2)
        if size == 0:
            return


class Proxy:
    """Forwards requests to the replicas in turn, over connections that it keeps."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self.idle: list[list[Stream]] = [[] for _ in addresses]
        self.addresses = addresses
        self.turns: Iterator[int] = itertools.cycle(range(len(addresses)))

    async def serve(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._client, "127.0.0.1", port, limit=HEAD_BYTES_MAX)

    async def _connect(self) -> tuple[int, Stream] | None:
        """A connection to the next replica that takes one."""
        for _ in self.addresses:
            number = next(self.turns)
            while self.idle[number]:
                reader, writer = self.idle[number].pop()
                if not reader.at_eof() and not writer.is_closing():
                    return number, (reader, writer)
                writer.close()
            try:
                return number, await asyncio.open_connection(*self.addresses[number], limit=HEAD_BYTES_MAX)
            except OSError:
                continue
        return None

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (head := await read_head(reader)) is not None:
                if not await self._forward(head, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # The client has gone, or sent what is not HTTP.
        finally:
            writer.close()

    async def _forward(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the client's connection goes on."""
        connected = await self._connect()
        if connected is None:
            writer.write(UNAVAILABLE)
            return False
        number, (upstream_reader, upstream_writer) = connected
        try:
            upstream_writer.write(head.data)
            if head.is_length_wrong():
                # Where the request ends is not known; what it is answered with is the replica's to say.
                await self._refused(upstream_reader, writer)
                upstream_writer.close()
                return False
            if head.is_chunked():
                await copy_chunks(reader, upstream_writer)
            else:
                await copy_exactly(reader, upstream_writer, head.length() or 0)
            answer = await read_head(upstream_reader)
            while answer is not None and answer.words[1].startswith("1"):
                writer.write(answer.data)
                answer = await read_head(upstream_reader)
            if answer is None:
                writer.write(BAD_GATEWAY)
                upstream_writer.close()
                return False
            is_kept = await self._answer(head.words[0], answer, upstream_reader, writer)
        except BaseException:
            upstream_writer.close()
            raise
        if is_kept and not answer.closes():
            self.idle[number].append((upstream_reader, upstream_writer))
        else:
            upstream_writer.close()
        return is_kept and not answer.closes() and not head.closes()

    @staticmethod
    async def _refused(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on the answer to a request of which only the head was sent."""
        answer = await read_head(upstream)
        if answer is None:
            writer.write(BAD_GATEWAY)
            return
        writer.write(answer.data)
        await copy_exactly(upstream, writer, answer.length() or 0)
        await writer.drain()

    @staticmethod
    async def _answer(
        method: str, answer: Head, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass an answer on; whether its end was told other than by the connection's end."""
        writer.write(answer.data)
        length = answer.length()
        is_told = True
        if method == "HEAD" or int(answer.words[1]) in WITHOUT_BODY:
            pass
        elif answer.is_chunked():
            await copy_chunks(upstream, writer)
        elif length is not None:
            await copy_exactly(upstream, writer, length)
        else:
            is_told = False
            while data := await upstream.read(COPY_BYTES):
                writer.write(data)
        await writer.drain()
        return is_told
