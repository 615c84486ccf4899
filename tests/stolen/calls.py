"""Every call of every protocol, made with a certificate that is not for it."""

import pathlib
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

from attack_grpc import act, deletion, field, of_uuid, payload, started, varint

CELL = "placewright.cell.v1.Cell"
PLACEMENT = "placewright.cell.v1.Placement"
AGENTS = "placewright.agent.v1.Agents"
CERTIFICATES = "placewright.certificates.v1.Certificates"


class Thief:
    """Somebody with a holder's certificate and key."""

    def __init__(self, grpc: Any, folder: pathlib.Path, trust: pathlib.Path | None = None) -> None:
        self.grpc = grpc
        certificate_and_key = (folder / "identity.pem").read_text()
        key_start = certificate_and_key.index("-----BEGIN PRIVATE KEY")
        authorities = ((trust or folder) / "ca.pem").read_bytes()
        self.credentials = grpc.ssl_channel_credentials(
            authorities,
            certificate_and_key[key_start:].encode(),
            certificate_and_key[:key_start].encode(),
        )

    def channel(self, port: int) -> Any:
        kind = "control" if port == getattr(self, "control", 0) else "cell"
        names = (("grpc.ssl_target_name_override", f"{kind}.placewright.internal"),)
        return self.grpc.secure_channel(f"127.0.0.1:{port}", self.credentials, names)

    def call(self, port: int, method: str, body: bytes, stream: bool = False) -> tuple[str, str]:
        """The status of a call, and the text of the error."""
        with self.channel(port) as channel:
            made = channel.unary_stream if stream else channel.unary_unary
            try:
                answer = made(f"/{method}")(body, timeout=15)
                if stream:
                    next(iter(answer))
                return "OK", ""
            except self.grpc.RpcError as error:
                return error.code().name, error.details() or ""

    def join(self, port: int, batches: list[bytes], hold: float = 1.5) -> tuple[str, str]:
        """Joins a cell and sends these batches; the status with which the call ended, and the text."""

        def send() -> Iterator[bytes]:
            yield from batches
            time.sleep(hold)

        with self.channel(port) as channel:
            made = channel.stream_stream(f"/{AGENTS}/Join")
            try:
                for _ in made(send(), timeout=15):
                    pass
                return "OK", ""
            except self.grpc.RpcError as error:
                return error.code().name, error.details() or ""


def message(kind: int, body: bytes) -> bytes:
    """An agent's batch with one message."""
    return field(1, 1) + field(2, field(kind, body))


def facts(host: str, sequence: int, service: str, node: str) -> bytes:
    """A host's update with its names."""
    names = field(1, service) + field(2, node) + field(3, str(uuid.UUID(int=0)))
    return message(4, field(1, host) + field(2, time.time_ns() // 1000) + field(3, sequence) + field(6, names))


def as_agent(own: tuple[str, str], other: tuple[str, str], instance: str) -> dict[str, list[bytes]]:
    """Batches of an agent about another's host, by what they claim. A host is its name and its UUID."""
    session = later()
    step = field(1, other[1]) + field(2, instance) + field(3, session) + field(4, 1)
    gone = field(1, other[1]) + field(2, instance) + field(3, 1)
    down = field(1, other[1]) + field(2, session) + field(3, 1) + field(12, 1)
    removed = field(1, other[1]) + field(2, session) + field(3, 1) + field(13, b"")
    return {
        "a newer session of another host": [started(other[1], session, other[0])],
        "the greatest session of another host": [started(other[1], 2**60, other[0])],
        "another host under an own name": [started(other[1], session, own[0])],
        "an own host under another's name": [started(own[1], session, other[0])],
        "the end of another's step": [message(2, step)],
        "another's guest as destroyed": [message(3, gone)],
        "another host as alive": [message(5, field(1, other[1]))],
        "another host as down": [message(4, down)],
        "another host as gone": [message(4, removed)],
    }


def behind_own(own: tuple[str, str], other: tuple[str, str], instance: str) -> dict[str, list[bytes]]:
    """Batches about another's host after a session of an own host, which is accepted."""

    def begin() -> bytes:
        return started(own[1], later(), own[0])

    step = field(1, other[1]) + field(2, instance) + field(3, later()) + field(4, 1)
    return {
        "another's step behind an own session": [begin(), message(2, step)],
        "another's host behind an own session": [begin(), started(other[1], later(), other[0])],
        "another's name as that of an own node": [begin(), facts(own[1], 1, own[0], other[0])],
        "another's name as that of an own service": [begin(), facts(own[1], 1, other[0], own[0])],
    }


def later() -> int:
    """A session that is newer than those of agents."""
    return time.time_ns() + 10**15


def release(instance: str, number: int) -> bytes:
    """A cell's list of one ask to release what an instance holds."""
    head = varint(1) + of_uuid(uuid.UUID(instance)) + varint(number)
    return payload(head + varint(1) + b"\0")


def swap(instance: str, number: int, host: str) -> bytes:
    """A cell's list of one ask for another host."""
    amounts = varint(1) + of_uuid(uuid.UUID(host)) + varint(1) + varint(4) + b"VCPU" + varint(2)
    candidate = of_uuid(uuid.UUID(host)) + b"\0" + amounts
    head = varint(1) + of_uuid(uuid.UUID(instance)) + varint(number)
    return payload(head + b"\0" + varint(1) + candidate)


def settle(instance: str, number: int) -> bytes:
    """A cell's list of one ask to settle an instance after a move."""
    head = varint(1) + of_uuid(uuid.UUID(instance)) + varint(number)
    return payload(head + varint(2) + of_uuid(uuid.uuid4()) + b"\1\0")


def of_control() -> dict[str, tuple[str, bytes, bool]]:
    """The calls that control makes of a cell."""
    nothing = payload(b"")
    return {
        "Cell.Identify": (f"{CELL}/Identify", b"", False),
        "Cell.Deliver": (f"{CELL}/Deliver", payload(deletion(7)), False),
        "Cell.Act": (f"{CELL}/Act", payload(act(0)), False),
        "Cell.Actions": (f"{CELL}/Actions", payload(of_uuid(uuid.uuid4())), False),
        "Cell.Follow": (f"{CELL}/Follow", nothing, True),
    }


def of_cells(instance: str, host: str) -> dict[str, tuple[str, bytes, bool]]:
    """The calls that a cell makes of control, about an instance and a host."""
    return {
        "Placement.Ask to release": (f"{PLACEMENT}/Ask", release(instance, 1000), False),
        "Placement.Ask for a host": (f"{PLACEMENT}/Ask", swap(instance, 1000, host), False),
        "Placement.Ask to settle": (f"{PLACEMENT}/Ask", settle(instance, 1000), False),
    }


def certificate_of(folder: pathlib.Path) -> bytes:
    """A holder's certificate (DER), which everybody gets who connects to the holder."""
    import base64

    text = (folder / "identity.pem").read_text()
    found = re.search(r"-----BEGIN CERTIFICATE-----\n(.*?)-----END", text, re.DOTALL)
    assert found
    return base64.b64decode(found[1])


def request() -> bytes:
    """A signing request that is not valid: the server checks who sends it before it reads it."""
    return b"\x30\x00"
