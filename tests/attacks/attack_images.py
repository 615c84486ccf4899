"""Images of others, uploads without end or without progress, and descriptions that are costly to take."""

import json
import pathlib
import socket
import threading
import time
from typing import Any

from case import ADMIN, ATTACKER, BYSTANDER, Caller, Case, Site
from ports import free_port

TRANSFERS_MAX = 16
IMAGE_BYTES_MAX = 1 << 20
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
BYTES = {"Content-Type": "application/octet-stream"}


def _new_image(caller: Caller, **fields: Any) -> str:
    body = {"name": "one", "disk_format": "raw", "container_format": "bare", **fields}
    answer = caller("POST", "/v2/images", body)
    assert answer.status == 201, answer
    return answer.json()["id"]


def _of_others(case: Case, site: Site, port: int) -> None:
    owner, attacker = site.caller(BYSTANDER, port=port), site.caller(ATTACKER, port=port)
    image = _new_image(owner, name="secret plans", tags=["secret"])
    assert owner("PUT", f"/v2/images/{image}/file", b"secret bytes", BYTES).status == 204
    before = owner("GET", f"/v2/images/{image}").body
    rename = json.dumps([{"op": "replace", "path": "/name", "value": "mine"}]).encode()
    own = json.dumps([{"op": "replace", "path": "/visibility", "value": "public"}]).encode()
    attempts: list[tuple[str, str, Any, dict[str, str]]] = [
        ("GET", "", None, {}),
        ("GET", "/file", None, {}),
        ("PUT", "/file", b"others' bytes", BYTES),
        ("PATCH", "", rename, PATCH),
        ("PATCH", "", own, PATCH),
        ("DELETE", "", None, {}),
        ("PUT", "/tags/taken", None, {}),
        ("DELETE", "/tags/secret", None, {}),
        ("GET", "/members", None, {}),
        ("POST", "/members", {"member": "evil"}, {}),
        ("PUT", "/members/evil", {"status": "accepted"}, {}),
    ]
    for method, path, body, headers in attempts:
        answer = attacker(method, f"/v2/images/{image}{path}", body, headers)
        case.check(f"{method} {path or 'the image'} of another project", answer.status in (403, 404), answer)
        hidden = b"secret" not in answer.body
        case.check(f"{method} {path or 'the image'} says nothing of it", hidden, answer)
    listed = attacker("GET", "/v2/images?limit=1000").body
    case.check("lists do not have it", b"secret plans" not in listed)
    case.check("it is as it was", owner("GET", f"/v2/images/{image}").body == before)
    answer = attacker("POST", "/v2/images", {"name": "p", "visibility": "public"})
    case.check("a member makes no public image", answer.status == 403, answer)
    answer = attacker("POST", "/v2/images", {"name": "p", "owner": "good"})
    case.check("nor one of another project", answer.status == 403, answer)
    answer = attacker("POST", "/v2/images", {"id": image, "name": "p"})
    case.check("nor one with another's id", answer.status == 409, answer)


def _odd_paths(case: Case, site: Site, port: int) -> None:
    caller = site.caller(ATTACKER, port=port)
    up = "..%2f..%2f..%2f..%2fetc%2fpasswd"
    for path in (
        f"/v2/images/{up}/file",
        "/v2/images/../../../../etc/passwd",
        "/v2/images/%2e%2e/file",
        "/v2/images/.upload-x/file",
        "/v2/images/%00/file",
        f"/v2/schemas/{up}",
    ):
        for method, body in (("GET", None), ("PUT", b"bytes"), ("DELETE", None)):
            answer = caller(method, path, body, BYTES)
            ok = answer.status in (400, 404, 405, 415) and b"root:" not in answer.body
            case.check(f"{method} {path}", ok, answer)


def _odd_descriptions(case: Case, site: Site, port: int) -> None:
    caller = site.caller(ATTACKER, port=port)
    image = _new_image(caller)
    many = [{"op": "add", "path": f"/p{n}", "value": "v"} for n in range(5_000)]
    again = [{"op": "replace", "path": "/name", "value": "n"}] * 5_000
    deep = b'{"name":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    rows: list[tuple[str, str, str, bytes, dict[str, str], set[int]]] = [
        ("5,000 properties in one patch", "PATCH", f"/{image}", json.dumps(many).encode(), PATCH, {400, 413}),
        ("the same change 5,000 times", "PATCH", f"/{image}", json.dumps(again).encode(), PATCH, {200, 400, 413}),
        ("a path of 10,000 steps", "PATCH", f"/{image}",
         json.dumps([{"op": "add", "path": "/a" * 10_000, "value": "v"}]).encode(), PATCH, {400, 403, 409}),
        ("a property that is no text", "PATCH", f"/{image}",
         json.dumps([{"op": "add", "path": "/a", "value": {"b": 1}}]).encode(), PATCH, {400}),
        ("the owner in a patch", "PATCH", f"/{image}",
         json.dumps([{"op": "replace", "path": "/owner", "value": "good"}]).encode(), PATCH, {403}),
        ("the checksum in a patch", "PATCH", f"/{image}",
         json.dumps([{"op": "replace", "path": "/checksum", "value": "0"}]).encode(), PATCH, {403}),
        ("5,000 properties", "POST", "", json.dumps({f"p{n}": "v" for n in range(5_000)}).encode(), {}, {400, 413}),
        ("5,000 tags", "POST", "", json.dumps({"tags": [f"t{n}" for n in range(5_000)]}).encode(), {}, {400, 413}),
        ("a name of 200,000 letters", "POST", "", json.dumps({"name": "n" * 200_000}).encode(), {}, {400, 413}),
        ("lists in lists, 30,000 deep", "POST", "", deep, {}, {400}),
        ("a description of a megabyte", "POST", "", b" " * (1 << 20), {}, {413}),
    ]
    for name, method, path, body, headers, expected in rows:
        answer = caller(method, f"/v2/images{path}", body, headers)
        case.check(f"{name}", answer.status in expected and answer.seconds < 1, answer)
    for number in range(200):
        answer = caller("PUT", f"/v2/images/{image}/tags/t{number}")
        if answer.status != 204:
            break
    case.check("tags, one after the other, have a bound", answer.status == 413, answer)


def _uploads(case: Case, site: Site, port: int, folder: pathlib.Path) -> None:
    attacker = site.caller(ATTACKER, port=port)

    def begin(image: str, declared: int | None) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", port), 20)
        head = f"PUT /v2/images/{image}/file HTTP/1.1\r\nHost: a\r\nX-Auth-Token: {ATTACKER}\r\nX-Roles: member\r\n"
        head += "Content-Type: application/octet-stream\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n" if declared is None else f"Content-Length: {declared}\r\n\r\n"
        link.sendall(head.encode())
        return link

    image = _new_image(attacker)
    link = begin(image, 1 << 60)
    case.check("an exabyte is refused before it arrives", b" 413 " in link.recv(4096)[:20])
    link.close()
    link = begin(image, None)
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    status = b""
    link.settimeout(5)
    try:
        for _ in range(1000):
            link.sendall(chunk)
    except OSError:
        pass
    try:
        status = link.recv(4096)[:20]
    except OSError:
        pass
    link.close()
    case.check("bytes without end are cut off", status == b"" or b" 413 " in status, status)
    image_state = attacker("GET", f"/v2/images/{image}").json()
    case.check("and the image has none of them", image_state["size"] is None, image_state)
    # Uploads that make no progress take the places of their project, and nobody else's.
    images = [_new_image(attacker) for _ in range(TRANSFERS_MAX)]
    links = [begin(one, 1000) for one in images]
    time.sleep(0.5)
    owner = site.caller(BYSTANDER, port=port)
    theirs = _new_image(owner)
    answer = owner("PUT", f"/v2/images/{theirs}/file", b"bytes", BYTES)
    case.check(f"{TRANSFERS_MAX} uploads that stand still leave room for others", answer.status == 204, answer)
    for link in links:
        link.close()
    # Each of many connections sends a part, and breaks off.
    def break_off(one: str) -> None:
        with begin(one, 500_000) as link:
            link.sendall(b"y" * 100_000)

    threads = [threading.Thread(target=break_off, args=(one,)) for one in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = time.monotonic() + 15
    left: list[str] = ["?"]
    while left and time.monotonic() < end:
        left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        time.sleep(0.1)
    case.check("uploads that break off leave no file", not left, left)


def run(case: Case) -> None:
    port = free_port()
    options = {
        "image_listen": f"127.0.0.1:{port}",
        "image_folder": case.folder / "images",
        "image_transfers_max": TRANSFERS_MAX,
        "image_image_bytes_max": IMAGE_BYTES_MAX,
    }
    with case.up(hosts=0, **options) as site:
        _of_others(case, site, port)
        _odd_paths(case, site, port)
        _odd_descriptions(case, site, port)
        _uploads(case, site, port, case.folder / "images")
        answer = site.caller(ADMIN, port=port)("GET", "/v2/images")
        case.check("the service still answers", answer.status == 200, answer)
