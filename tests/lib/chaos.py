"""Make requests wrong, or at least unusual, in one or two ways."""

import copy
import json
import random
import re
from typing import Any
from urllib.parse import quote

STRANGE_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    1.0,
    2.5,
    1e308,
    -1e308,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    "",
    " ",
    "1",
    "x" * 300,
    "CUSTOM_" + "X" * 300,
    "custom_lower",
    "CUSTOM_GOLD\n",
    "\u00e9\u00df\U0001f600",
    "\u0000",
    "'; drop table allocations; --",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    {"": {}},
    [1, "1", None],
]

STRANGE_TEXTS = [
    "",
    "0",
    "-1",
    "1",
    "abc",
    "VCPU",
    "VCPU:",
    "VCPU:0",
    "VCPU:-1",
    "VCPU:1.5",
    "VCPU:1,VCPU:2",
    "VCPU:1,",
    ",",
    ":",
    "VCPU:99999999999999999999",
    "VCPU: 1",
    "NOPE:1",
    "in:",
    "!",
    "!!",
    "!in:",
    "in:!",
    "in:HW_CPU_X86_AVX,!CUSTOM_GOLD",
    "CUSTOM_NOPE",
    "HW_CPU_X86_AVX,",
    "HW_CPU_X86_AVX,!HW_CPU_X86_AVX",
    "startswith:",
    "startswith:hw_",
    "name:x",
    "none",
    "isolate",
    "_NET,_NOPE",
    "\u00e9",
    "%",
    "%zz",
    "a" * 2000,
    "00000000-0000-0000-0000-000000000000",
    "not-a-uuid",
]

QUERY_KEYS = [
    "resources",
    "resources1",
    "resources01",
    "resources_NET",
    "resources-" + "x" * 70,
    "required",
    "required1",
    "required_ALONE",
    "member_of",
    "member_of2",
    "in_tree",
    "in_tree1",
    "root_required",
    "same_subtree",
    "group_policy",
    "limit",
    "name",
    "uuid",
    "associated",
    "project_id",
    "user_id",
    "consumer_type",
    "unknown",
]

VERSIONS = ["1.40", "2.0", "0.9", "1", "abc", "1.", ".1", "01.10", "1.1_0", "-1.0"]
VERSIONS += ["1.999999999999", "latest ", "LATEST", "1.10 ", "", "placement"]
RAW_VERSIONS = ["compute 2.1", "compute 2.1, placement 1.10", "PLACEMENT 1.10"]
RAW_VERSIONS += ["placement", "placement 1.2, placement 1.30", ",", "placement  1.12"]
CONTENT_TYPES = ["text/plain", "application/JSON", "application/json; charset=utf-8"]
CONTENT_TYPES += ["", "application/xml", "application/json;", "*/*"]
ACCEPTS = ["text/html", "text/plain", "application/json", "*/*", "application/xml"]
ACCEPTS += ["", "application/json;q=0", "text/html, application/json", "garbage"]
METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"]


def disturb(rng: random.Random, request: Any, pools: Any) -> None:
    """Change the request in place, in one to two ways."""
    for _ in range(rng.choice([1, 1, 1, 2])):
        changes = [_version, _method, _path, _token, _headers]
        changes += [_query] * (4 if "?" in request.path else 1)
        if request.body is not None and not isinstance(request.body, bytes):
            changes += [_json] * 8 + [_text, _content_type]
        elif request.body is None:
            changes += [_unexpected_body]
        rng.choice(changes)(rng, request, pools)


def _version(rng, request, pools) -> None:
    if rng.random() < 0.6:
        request.version = rng.choice(VERSIONS)
    else:
        request.version = None
        request.headers["OpenStack-API-Version"] = rng.choice(RAW_VERSIONS)


def _method(rng, request, pools) -> None:
    request.method = rng.choice(METHODS)


def _token(rng, request, pools) -> None:
    request.token = rng.choice([None, "", "bob", "bob:project", ":", "admin:other"])
    if rng.random() < 0.5:
        request.roles = rng.choice(["", "admin", "ADMIN", "reader", "service , x", ","])


def _headers(rng, request, pools) -> None:
    name, value = rng.choice(
        [
            ("Accept", rng.choice(ACCEPTS)),
            ("OpenStack-System-Scope", rng.choice(["all", ""])),
            ("X-Domain-Id", rng.choice(["default", ""])),
            ("X-Project-Id", rng.choice([pools.projects[0], ""])),
            ("Origin", "http://valid.example.com"),
            ("If-Match", "*"),
            ("X-Forwarded-Proto", "https"),
            ("Accept-Encoding", "gzip"),
            ("X-Long", "y" * 5000),
        ]
    )
    request.headers[name] = value


def _content_type(rng, request, pools) -> None:
    request.content_type = rng.choice([None, *CONTENT_TYPES])


def _unexpected_body(rng, request, pools) -> None:
    request.body = rng.choice([{}, [], {"name": "CUSTOM_X"}, b"", b"{", b"null", b"0"])


def _path(rng, request, pools) -> None:
    path, question_mark, query = request.path.partition("?")
    parts = path.split("/")
    if len(parts) < 3:
        request.path = rng.choice([path + "/", "/" + path, path + "/x"]) + question_mark + query
        return
    index = rng.randrange(2, len(parts))
    old = parts[index]
    parts[index] = rng.choice(
        [
            "",
            "nope",
            old.upper(),
            old.lower(),
            old.replace("-", ""),
            "{" + old + "}",
            "urn:uuid:" + old,
            old + "%0A",
            "%00",
            "%FF",
            quote("\u00e9"),
            "..",
            "a%2Fb",
            old + ";x=1",
            "X" * 260,
            "CUSTOM_" + "Y" * 250,
            "-" * 36,
            "00000000-0000-0000-0000-000000000000",
        ]
    )
    request.path = "/".join(parts) + question_mark + query


def _query(rng, request, pools) -> None:
    path, _, query = request.path.partition("?")
    pairs = query.split("&") if query else []
    kind = rng.random()
    if kind < 0.4 and pairs:
        index = rng.randrange(len(pairs))
        key = pairs[index].partition("=")[0]
        pairs[index] = f"{key}={quote(rng.choice(STRANGE_TEXTS), safe='%:,!')}"
    elif kind < 0.5 and pairs:
        pairs.pop(rng.randrange(len(pairs)))
    elif kind < 0.65 and pairs:
        pairs.append(rng.choice(pairs))
    elif kind < 0.75 and pairs:
        index = rng.randrange(len(pairs))
        pairs[index] = rng.choice(QUERY_KEYS) + "=" + pairs[index].partition("=")[2]
    else:
        value = rng.choice(STRANGE_TEXTS + pools.providers[:1] + pools.aggregates[:1])
        pairs.append(f"{rng.choice(QUERY_KEYS)}={quote(value, safe='%:,!')}")
    request.path = path + ("?" + "&".join(pairs) if pairs else "")


def paths_in(value: Any, path: tuple = ()) -> list[tuple]:
    """The path of every value inside a JSON value, the outermost first."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths_in(inner, (*path, index))
    return found


def _json(rng, request, pools) -> None:
    body = copy.deepcopy(request.body)
    paths = paths_in(body)[1:]
    if not paths:
        request.body = rng.choice(STRANGE_VALUES)
        return
    path = rng.choice(paths)
    container = body
    for step in path[:-1]:
        container = container[step]
    kind = rng.random()
    if kind < 0.45:
        container[path[-1]] = copy.deepcopy(rng.choice(STRANGE_VALUES))
    elif kind < 0.65:
        del container[path[-1]]
    elif kind < 0.8 and isinstance(container, dict):
        value = container.pop(path[-1])
        key = str(path[-1])
        container[
            rng.choice([key.upper(), key.lower(), key + "x", "bad-key", "", "nope"])
        ] = value
    elif kind < 0.9 and isinstance(container, dict):
        container["additional"] = copy.deepcopy(rng.choice(STRANGE_VALUES))
    elif isinstance(container, list):
        container.append(container[path[-1]])
    else:
        body = copy.deepcopy(rng.choice(STRANGE_VALUES))
    request.body = body


def _text(rng, request, pools) -> None:
    """Makes the body a text that is no JSON any more, or JSON written in an unusual way."""
    try:
        text = json.dumps(request.body, default=lambda _: 0)
    except TypeError:
        return
    kind = rng.randrange(7)
    if kind == 0:
        data = text[: rng.randrange(len(text) + 1)].encode()
    elif kind == 1:
        data = (text + rng.choice([" ", "x", "{}", "\n"])).encode()
    elif kind == 2:
        data = text.encode("utf-16")
    elif kind == 3:
        data = text.encode() + b"\xff"
    elif kind == 4:
        data = re.sub(
            r"\d+",
            lambda _: rng.choice(["NaN", "Infinity", "1e2", "01"]),
            text,
            count=1,
        ).encode()
    elif kind == 5 and text.startswith("{") and len(text) > 2:
        data = ("{" + text[1:-1] + "," + text[1:]).encode()
    else:
        data = b"[" * rng.choice([10, 600, 20000])
    request.body = data
