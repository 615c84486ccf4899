"""Many resource providers, loaded fast: pipelined requests on several connections."""

import json
import socket
import threading
import uuid

ADMIN = "admin"
CONNECTIONS = 16


def host(number: int) -> str:
    """The UUID of a provider by its number."""
    return str(uuid.UUID(int=0xA000_0000_0000 + number))


def request(
    method: str, path: str, body: object = None, version: str = "1.39", token: str = ADMIN
) -> bytes:
    """One request as it goes over the wire."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    content = b"" if body is None else content
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: placement\r\nX-Auth-Token: {token}\r\n"
        f"OpenStack-API-Version: placement {version}\r\nAccept: application/json\r\n"
    )
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


def connect(port: int, receive_bytes: int | None = None) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(120)
    connection.connect(("127.0.0.1", port))
    return connection


def _send(port: int, requests: list[bytes], statuses: list[str]) -> None:
    """Sends all requests without waiting, and reads the answers meanwhile."""
    with connect(port) as connection:
        sender = threading.Thread(target=connection.sendall, args=(b"".join(requests),))
        sender.start()
        with connection.makefile("rb") as answers:
            for _ in requests:
                line = answers.readline()
                if not line:
                    break
                statuses.append(line[9:12].decode())
                length = 0
                while (header := answers.readline().strip()) != b"":
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                answers.read(length)
        sender.join()


def send_all(port: int, lists: list[list[bytes]]) -> dict[str, int]:
    """Sends lists of requests, each on a connection of its own; returns the number of answers by status."""
    statuses: list[list[str]] = [[] for _ in lists]
    rows = zip(lists, statuses, strict=True)
    threads = [threading.Thread(target=_send, args=(port, *row)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts: dict[str, int] = {}
    for status in (status for row in statuses for status in row):
        counts[status] = counts.get(status, 0) + 1
    return counts


def load(port: int, count: int) -> dict[str, int]:
    """Makes ``count`` providers with processors, memory and disk."""
    record = {"total": 1_000_000, "max_unit": 1_000_000}
    inventories = {
        "resource_provider_generation": 0,
        "inventories": {"VCPU": record, "MEMORY_MB": record, "DISK_GB": record},
    }
    lists: list[list[bytes]] = [[] for _ in range(CONNECTIONS)]
    for number in range(count):
        provider = {"name": f"provider-{number}", "uuid": host(number)}
        lists[number % CONNECTIONS] += [
            request("POST", "/resource_providers", provider),
            request("PUT", f"/resource_providers/{host(number)}/inventories", inventories),
        ]
    return send_all(port, lists)


def in_threads(jobs: list) -> list:
    """Runs jobs at the same time; returns their results in the order of the jobs."""
    results: list = [None] * len(jobs)

    def run(index: int) -> None:
        results[index] = jobs[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
