"""Hostile peers over gRPC: agents, cells and controls that send what nobody can mean."""

import json
import pathlib
import queue
import random
import re
import struct
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import launch
import servers
from case import IMAGE, Case, Site
from ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
GREATEST = 2**64 - 1
HOSTS = 5
TOKEN = "0123456789abcdef"


def load_grpc() -> Any:
    """grpcio, from a virtual environment of its own."""
    venv = HERE / ".venv"
    make = [HERE.parent / "lib/make-venv", venv, HERE / "requirements.txt"]
    subprocess.run(make, check=True)
    sys.path[1:1] = [str(path) for path in venv.glob("lib/python*/site-packages")]
    import grpc

    return grpc


# The numbers of fields are those of `agent.proto` and `cell.proto` in crates/rpc/proto.
# --- the bytes of protobuf and of postcard ---------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, which are numbers, or bytes after their length."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        length = number()
        yield key >> 3, data[at : at + length]
        at += length


def started(host: str, session: int, name: str = "x") -> bytes:
    """An agent's batch with one start of a session."""
    start = field(1, host) + field(2, name) + field(3, session)
    return field(1, 1) + field(2, field(1, start))


def sessions(batch: bytes) -> dict[str, int]:
    """The sessions that begin in an agent's batch."""
    begun = {}
    for number, message in fields(batch):
        for kind, body in fields(message) if number == 2 else ():
            if kind == 1:
                start = dict(fields(body))
                begun[start[1].decode()] = start[3]
    return begun


def start_again(host: str, after: int) -> bytes:
    """A cell's batch with one order to begin a session anew."""
    return field(1, field(4, field(1, host) + field(2, after)))


def step(host: str, session: int, spec: bytes, amount: int) -> bytes:
    """A cell's batch with a build of a new instance."""
    resource = field(1, "MEMORY_MB") + field(2, amount)
    amounts = field(1, host) + field(2, resource)
    order = field(1, host) + field(2, session) + field(3, str(uuid.uuid4())) + field(4, 1)
    order += field(5, 3) + field(6, 1) + field(8, spec) + field(9, amounts)
    return field(1, field(1, order))


def payload(body: bytes) -> bytes:
    """A message with a version and bytes in postcard's format."""
    return field(1, 2) + field(2, body)


def of_uuid(one: uuid.UUID) -> bytes:
    return varint(16) + one.bytes


def deletion(claim: int) -> bytes:
    """Control's list of one deletion, as postcard writes it."""
    return varint(1) + varint(2) + varint(1) + of_uuid(uuid.uuid4()) + varint(claim)


def ask(number: int) -> bytes:
    """A cell's list of one ask to release all."""
    return varint(1) + of_uuid(uuid.uuid4()) + varint(number) + varint(1) + b"\0"


def candidates(amount: int) -> bytes:
    """A cell's list of one ask for another host."""
    amounts = varint(1) + of_uuid(uuid.uuid4()) + varint(1)
    amounts += varint(4) + b"VCPU" + varint(amount << 1)
    candidate = of_uuid(uuid.uuid4()) + b"\0" + amounts
    return varint(1) + of_uuid(uuid.uuid4()) + varint(7) + b"\0" + varint(1) + candidate


def act(kind: int) -> bytes:
    """Control's call to a cell to do something with an instance, by the number of the action."""
    return varint(kind) + of_uuid(uuid.uuid4())


# --- the attacks -----------------------------------------------------------------------------


class Peer:
    """Calls of one gRPC server, with bytes as they are."""

    def __init__(self, grpc: Any, address: str) -> None:
        self.grpc = grpc
        self.channel = grpc.insecure_channel(address)
        # With the token a call gets past authentication, and its content is looked at.
        self.token = (("authorization", f"Bearer {TOKEN}"),)

    def call(self, method: str, body: bytes) -> tuple[str, str]:
        """The status of a call, and the text of the error."""
        service = "Placement" if method == "Ask" else "Cell"
        made = self.channel.unary_unary(f"/placewright.cell.v1.{service}/{method}")
        try:
            made(body, timeout=20, metadata=self.token)
            return "OK", ""
        except self.grpc.RpcError as error:
            return error.code().name, error.details() or ""

    def join(self, batches: list[bytes], hold: float = 1.0) -> tuple[str, str]:
        """Joins a cell as an agent and sends these batches; the status with which the call ended, and the text."""
        made = self.channel.stream_stream("/placewright.agent.v1.Agents/Join")

        def send() -> Iterator[bytes]:
            yield from batches
            time.sleep(hold)

        try:
            for _ in made(send(), timeout=20, metadata=self.token):
                pass
            return "OK", ""
        except self.grpc.RpcError as error:
            return error.code().name, error.details() or ""


class FakeCell:
    """A cell that sends its agents the batches that a test puts into ``orders``."""

    def __init__(self, grpc: Any) -> None:
        self.received: queue.Queue[bytes] = queue.Queue()
        self.orders: queue.Queue[bytes | None] = queue.Queue()
        handler = grpc.method_handlers_generic_handler(
            "placewright.agent.v1.Agents",
            {"Join": grpc.stream_stream_rpc_method_handler(self._join)},
        )
        self.pool = futures.ThreadPoolExecutor(8)
        self.server = grpc.server(self.pool)
        self.server.add_generic_rpc_handlers((handler,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _join(self, batches: Iterator[bytes], context: Any) -> Iterator[bytes]:
        # Orders go to the latest connection. An earlier one may still wait for orders, and must not take any, so
        # that each connection has a queue of its own.
        orders: queue.Queue[bytes | None] = queue.Queue()
        self.orders = orders
        # An agent sends nothing before it has the initial metadata.
        context.send_initial_metadata(())

        def receive() -> None:
            try:
                for batch in batches:
                    self.received.put(batch)
            except Exception:
                # The agent went away.
                return

        self.pool.submit(receive)
        while self.orders is orders and context.is_active():
            try:
                order = orders.get(timeout=0.1)
            except queue.Empty:
                continue
            if order is None:
                return
            yield order

    def session(self, host: str | None, beyond: int, seconds: float = 15) -> tuple[str, int]:
        """The next session with a number beyond ``beyond``: its host and number. ``host`` is the one to wait for."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                batch = self.received.get(timeout=left)
            except queue.Empty:
                break
            for started_host, session in sessions(batch).items():
                if host in (None, started_host) and session > beyond:
                    return started_host, session
        return "", 0

    def stop(self) -> None:
        self.orders.put(None)
        self.server.stop(0)
        self.pool.shutdown(wait=False)


def cell_address(site: Site) -> str:
    text = pathlib.Path(site.server.log_path).read_text(errors="replace")
    found = re.search(r"cell 1\s+(127\.0\.0\.1:\d+) \(gRPC", text)
    if not found:
        raise servers.ServerError("the log does not have the cell's address")
    return found[1]


def problem_of_boots(site: Site, count: int = 5) -> str:
    """Creates servers; says what goes wrong, or nothing if all get active."""
    caller = site.caller()
    flavor = site.flavor()
    body = {"name": "s", "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}
    ids = []
    for _ in range(count):
        answer = caller("POST", "/v2.1/servers", {"server": body})
        if answer.status != 202:
            return str(answer)
        ids.append(answer.json()["server"]["id"])
    end = time.monotonic() + 20
    while time.monotonic() < end:
        states = [caller("GET", f"/v2.1/servers/{one}").json()["server"]["status"] for one in ids]
        if states == ["ACTIVE"] * count:
            return ""
        time.sleep(0.1)
    return f"the servers are {states}"


def hostile_agents(case: Case, grpc: Any, site: Site) -> None:
    """Somebody who begins sessions of real hosts with numbers so great that no greater one could follow."""
    answer = site.caller(port=site.placement)("GET", "/resource_providers")
    hosts = [row["uuid"] for row in answer.json()["resource_providers"] if "name" in row]
    peer = Peer(grpc, cell_address(site))
    for session in (GREATEST, 2**63, 2**62, 2**62 - 1):
        status, why = peer.join([started(host, session) for host in hosts])
        ok = status == "INVALID_ARGUMENT" and "started.session" in why
        case.check(f"an agent's session {session} is refused by name", ok, f"{status}: {why}")
    update = field(1, hosts[0]) + field(2, GREATEST) + field(3, GREATEST) + field(5, b"")
    status, why = peer.join([field(1, 1) + field(2, field(4, update))])
    ok = status == "INVALID_ARGUMENT" and "state.incarnation" in why
    case.check("an agent's greatest incarnation is refused by name", ok, f"{status}: {why}")
    case.check("the hosts carry servers after it", not (wrong := problem_of_boots(site)), wrong)


def start_agent(site: Site, folder: pathlib.Path, cell: int) -> servers.Server:
    """Starts a real agent for a cell on this port."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [str(launch.program()), "agent", "--config", "/dev/null"]
    for name, value in {
        "hosts": 3,
        "cell": f"127.0.0.1:{cell}",
        "placement-url": f"http://127.0.0.1:{site.placement}",
        "state-path": folder / "state",
    }.items():
        words += [f"--agent-{name}", str(value)]
    process = servers.Server(words, 0, str(folder / "agent.log"))
    process.start(wait=False)
    return process


def check_agent_goes_on(case: Case, what: str, cell: FakeCell, process: servers.Server, host: str) -> None:
    """Checks that an agent still does what its cell orders."""
    _, session = cell.session(host, 0)
    cell.orders.put(start_again(host, session))
    _, later = cell.session(host, session)
    ok = 0 < session < later < 2**62 and process.ended_by_itself() is None
    detail = f"session {session}, then {later}\n{process.log_tail()}"
    case.check(f"the agent goes on after {what}", ok, detail)


def hostile_cell(case: Case, grpc: Any, site: Site) -> None:
    """A cell that wants its agents to break."""
    cell = FakeCell(grpc)
    folder = case.folder / "agent"
    process = start_agent(site, folder, cell.port)
    try:
        host, session = cell.session(None, 0)
        for after in (GREATEST, GREATEST - 1, 2**63, 2**62, 2**62 - 1):
            cell.orders.put(start_again(host, after))
        good = field(1, "vm") + field(6, "{}")
        for amount in (GREATEST, 2**63, 2**63 - 1, 2**31):
            cell.orders.put(step(host, session, good, amount))
            cell.orders.put(step(host, session, good, amount))
        cell.orders.put(step(host, session, field(1, "x" * 100_000), 1))
        cell.orders.put(step(host, session, field(6, "[" * 100_000), 1))
        cell.orders.put(step(host, GREATEST, good + field(7, 2**63), 1))
        cell.orders.put(start_again(host, 1))
        cell.orders.put(start_again(host, session))
        check_agent_goes_on(case, "absurd orders", cell, process, host)
        process.stop()
        # A guest log as an earlier release left it, which accepted every session number of a cell.
        body = varint(2) + varint(GREATEST)
        head = struct.pack("<II", len(body), zlib.crc32(body))
        (folder / "state/guests").write_bytes(b"pwguest\x01" + head + body)
        cell.received = queue.Queue()
        process = start_agent(site, folder, cell.port)
        check_agent_goes_on(case, "a record with the greatest session", cell, process, host)
    finally:
        process.stop()
        cell.stop()


def absurd_payloads(case: Case, cell: Peer, control: Peer) -> None:
    for what, peer, method, body, named in [
        ("claim", cell, "Deliver", deletion(GREATEST), "delete.claim"),
        ("number of an ask", control, "Ask", ask(GREATEST), "asks.number"),
        ("amount", control, "Ask", candidates(2**62), "amount"),
        ("length of a list", cell, "Deliver", varint(2**40) + bytes(100), "at most 100000"),
        ("length of a list of asks", control, "Ask", varint(2**60), "at most 100000"),
    ]:
        status, why = peer.call(method, payload(body))
        ok = status == "INVALID_ARGUMENT" and named in why
        case.check(f"an absurd {what} is refused by name", ok, f"{status}: {why}")


def mutated_payloads(case: Case, cell: Peer, control: Peer) -> None:
    """Mutated messages of all kinds: each is answered or refused, and nothing panics."""
    draw = random.Random(11)
    count = 920 if case.short else 9200
    edge_values = (0, 1, 2**31, 2**32 - 1, 2**62 - 1, 2**62, 2**63, GREATEST)
    makers = [
        (cell, "Deliver", lambda: deletion(draw.choice(edge_values))),
        (cell, "Act", lambda: act(draw.randrange(6))),
        (cell, "Actions", lambda: of_uuid(uuid.uuid4())),
        (control, "Ask", lambda: ask(draw.choice(edge_values))),
        (control, "Ask", lambda: candidates(draw.choice(edge_values) >> 1)),
    ]
    allowed = {"OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION"}
    seen: dict[str, int] = {}
    wrong = []
    for _ in range(count):
        peer, method, make = draw.choice(makers)
        body = bytearray(make())
        for _ in range(draw.randrange(4)):
            at = draw.randrange(len(body) + 1)
            kind = draw.randrange(3)
            if kind == 0:
                body[at:at] = draw.choice((b"\xff" * 9, b"\x80", b"\0"))
            elif kind == 1:
                del body[at:]
            elif at < len(body):
                body[at] = draw.randrange(256)
        sent = payload(bytes(body))
        if draw.randrange(10) == 0:
            sent = draw.randbytes(draw.randrange(40))
        status, why = peer.call(method, sent)
        # Bytes that are no protobuf are refused by gRPC itself.
        seen[status] = seen.get(status, 0) + 1
        if status not in allowed and not (status == "INTERNAL" and "decode" in why):
            wrong.append(f"{method} {sent.hex()}: {status}: {why}")
    text = f"{count} mutated payloads are answered or refused: {json.dumps(seen)}"
    case.check(text, not wrong, "\n".join(wrong[:5]))


def run(case: Case) -> None:
    grpc = load_grpc()
    asks = free_port()
    token = case.folder / "token"
    token.write_text(TOKEN)
    options = {"control_listen": f"127.0.0.1:{asks}", "control_token_file": token}
    with case.up(hosts=HOSTS, **options) as site:
        hostile_agents(case, grpc, site)
        hostile_cell(case, grpc, site)
        cell, control = Peer(grpc, cell_address(site)), Peer(grpc, f"127.0.0.1:{asks}")
        absurd_payloads(case, cell, control)
        mutated_payloads(case, cell, control)
        case.check("the hosts carry servers after all", not (wrong := problem_of_boots(site)), wrong)
        answer = site.caller(port=site.health)("GET", "/metrics")
        ok = b"placewright_panics_total 0" in answer.body
        found = re.search(rb"placewright_panics.*", answer.body)
        case.check("nothing panicked", ok, found[0].decode() if found else "no metric of panics")
        log = pathlib.Path(site.server.log_path).read_text(errors="replace")
        lines = [line for line in log.splitlines() if "panicked" in line]
        case.check("no line tells of a panic", not lines, "\n".join(lines[:5]))
