"""Messages that are not good HTTP, or good HTTP that clients seldom send.

Each message has its bytes, the methods of the requests that have to be answered,
and whether the server may close the connection instead of answering all of them.
"""

import dataclasses
import random

HEAD = b"Host: 127.0.0.1\r\nX-Auth-Token: admin\r\n"
VERSION = b"OpenStack-API-Version: placement 1.39\r\n"
JSON = b"Content-Type: application/json\r\n"
GET = b"GET /resource_classes HTTP/1.1\r\n" + HEAD + VERSION


@dataclasses.dataclass
class Message:
    """What is sent. With ``hang_up`` the connection is closed without reading an answer."""

    name: str
    data: bytes
    methods: list[str]
    may_close: bool = True
    hang_up: bool = False


def chunked(body: bytes, *sizes: int) -> bytes:
    parts = []
    for size in (*sizes, len(body)):
        part, body = body[:size], body[size:]
        if part:
            parts.append(b"%x\r\n%s\r\n" % (len(part), part))
    return b"".join(parts) + b"0\r\n\r\n"


def _post(extra: bytes, body: bytes) -> bytes:
    return (
        b"POST /resource_classes HTTP/1.1\r\n"
        + HEAD
        + VERSION
        + JSON
        + extra
        + b"\r\n"
        + body
    )


def message(rng: random.Random) -> Message:
    """One of the kinds below."""
    return rng.choice(_KINDS)(rng)


def _pipelined(rng: random.Random) -> Message:
    count = rng.randint(2, 8)
    return Message("pipelined", (GET + b"\r\n") * count, ["GET"] * count, False)


def _chunked(rng: random.Random) -> Message:
    body = b'{"name": "CUSTOM_CHUNKED"}'
    data = _post(b"Transfer-Encoding: chunked\r\n", chunked(body, rng.randint(1, 20)))
    return Message("chunked body", data, ["POST"], False)


def _expect(rng: random.Random) -> Message:
    body = b'{"name": "CUSTOM_EXPECTED"}'
    extra = b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(body)
    return Message("expect 100-continue", _post(extra, body), ["POST"], False)


def _many_headers(rng: random.Random) -> Message:
    count = rng.choice([50, 99, 101, 500, 5000])
    lines = b"".join(b"X-H%d: %d\r\n" % (n, n) for n in range(count))
    return Message(f"{count} headers", GET + lines + b"\r\n", ["GET"])


def _long_target(rng: random.Random) -> Message:
    size = rng.choice([4000, 9000, 70000, 200000])
    line = b"GET /traits?name=in:%s HTTP/1.1\r\n" % (b"X" * size)
    return Message(f"target of {size} bytes", line + HEAD + VERSION + b"\r\n", ["GET"])


def _cut(rng: random.Random) -> Message:
    body = b'{"name": "CUSTOM_CUT"}'
    data = _post(b"Content-Length: %d\r\n" % len(body), body)
    return Message("cut off", data[: rng.randrange(1, len(data))], [], hang_up=True)


def _unread(rng: random.Random) -> Message:
    return Message("hung up", (GET + b"\r\n") * rng.randint(1, 20), [], hang_up=True)


def _fixed(name: str, data: bytes, method: str = "GET", may_close: bool = True):
    return lambda rng: Message(name, data, [method], may_close)


def _noise(rng: random.Random) -> Message:
    data = rng.randbytes(rng.randint(1, 200)).replace(b"\n", b"x") + b"\r\n\r\n"
    return Message("noise", data, ["GET"])


_KINDS = [
    _pipelined,
    _pipelined,
    _chunked,
    _chunked,
    _expect,
    _many_headers,
    _long_target,
    _cut,
    _cut,
    _unread,
    _noise,
    _fixed("HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n"),
    _fixed("no Host", b"GET / HTTP/1.1\r\nX-Auth-Token: admin\r\n\r\n"),
    _fixed("absolute target", b"GET http://a.example/ HTTP/1.1\r\n" + HEAD + b"\r\n"),
    _fixed("lower-case method", b"get / HTTP/1.1\r\n" + HEAD + b"\r\n"),
    _fixed("space in target", b"GET /a b HTTP/1.1\r\n" + HEAD + b"\r\n"),
    _fixed("NUL in target", b"GET /\x00 HTTP/1.1\r\n" + HEAD + b"\r\n"),
    _fixed("bytes in target", b"GET /traits/\xff\xfe HTTP/1.1\r\n" + HEAD + b"\r\n"),
    _fixed("no version", b"GET /\r\n\r\n"),
    _fixed("header without name", GET + b": x\r\n\r\n"),
    _fixed("header without colon", GET + b"nonsense\r\n\r\n"),
    _fixed("space before colon", GET + b"X-A : x\r\n\r\n"),
    _fixed("folded header", GET + b"X-A: x\r\n y\r\n\r\n"),
    _fixed("bytes in header", GET + b"X-A: \xff\x80\r\n\r\n"),
    _fixed("header of 100 kB", GET + b"X-A: " + b"y" * 100_000 + b"\r\n\r\n"),
    _fixed("length no number", _post(b"Content-Length: hi\r\n", b""), "POST"),
    _fixed("negative length", _post(b"Content-Length: -1\r\n", b""), "POST"),
    _fixed(
        "two lengths",
        _post(b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{} "),
        "POST",
    ),
    _fixed(
        "length and chunks",
        _post(b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", chunked(b"{}")),
        "POST",
    ),
    _fixed(
        "bad chunk", _post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n"), "POST"
    ),
    _fixed(
        "unknown coding", _post(b"Transfer-Encoding: gzip\r\n", b"\x1f\x8b\r\n"), "POST"
    ),
    _fixed("endless length", _post(b"Content-Length: 99999999999999\r\n", b""), "POST"),
    _fixed("upgrade", GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
    _fixed("asterisk", b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n", "OPTIONS"),
    _fixed("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
]
