"""What of two answers has to be equal, and what may differ.

The rules follow the order-free meaning of the API: lists whose order the
reference takes from a set are compared as sets, and where the reference
fails (500) or answers by chance, the rule says what is compared instead.
"""

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl

from request import Request
from wire import Response

# Headers that must be equal in both answers: in presence and in value.
EXACT_HEADERS = ["openstack-api-version", "vary", "cache-control", "content-type"]
EXACT_HEADERS += ["access-control-allow-origin", "www-authenticate"]
# Headers of which only the presence must be equal: the value is a time, or is made up for each request.
PRESENT_HEADERS = ["last-modified", "x-openstack-request-id"]
# Sentences whose wording is a library's or a database driver's.
FOREIGN_TEXTS = [
    (re.compile(r"JSON does not validate: .*", re.S), "JSON does not validate"),
    (re.compile(r"invalid version string: .*", re.S), "invalid version string"),
    (re.compile(r"Malformed JSON: .*", re.S), "Malformed JSON"),
    (re.compile(r"Invalid query string parameters: .*", re.S), "Invalid query string"),
    # Of several missing traits the reference names some, in the order of a set.
    (re.compile(r"No such trait(\(s\))?:? .*", re.S), "No such trait"),
    # Of several inventories that are wrong or in use, the reference names a set, or the database chooses one.
    (re.compile(r"Inventory for '.*' on resource provider .*", re.S), "Inventory for"),
    (re.compile(r"Update conflict: .*", re.S), "Update conflict"),
]
NO_NUMBER = re.compile(rb"NaN|Infinity")
WORD = re.compile(r"[A-Za-z0-9_-]+|[^\sA-Za-z0-9_,'\"\[\]{}()-]")


def json_of(response: Response) -> Any:
    """The JSON value of an answer; its text when it is not JSON."""
    try:
        return json.loads(response.body)
    except ValueError:
        return response.body.decode("utf-8", "replace")


def key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def as_set(values: Any) -> Any:
    if isinstance(values, list):
        return sorted((key(v) for v in values))
    return values


def words(text: Any) -> Any:
    """A sentence without the order of its words: some print a set."""
    if not isinstance(text, str):
        return text
    try:
        # The reference repeats a path's bytes as if each were a letter.
        text = text.encode("latin-1").decode()
    except UnicodeError:
        pass
    for pattern, name in FOREIGN_TEXTS:
        text = pattern.sub(name, text)
    return sorted(WORD.findall(text))


def candidate(entry: dict) -> str:
    """One allocation request, comparable."""
    allocations = entry.get("allocations")
    if isinstance(allocations, list):
        allocations = as_set(allocations)
    mappings = {
        suffix: sorted(providers)
        for suffix, providers in entry.get("mappings", {}).items()
    }
    rest = {k: v for k, v in entry.items() if k not in ("allocations", "mappings")}
    return key([allocations, mappings, rest])


def summaries(body: dict) -> dict:
    found = {}
    for provider, summary in body.get("provider_summaries", {}).items():
        found[provider] = dict(summary)
        if "traits" in summary:
            found[provider]["traits"] = sorted(summary["traits"])
    return found


def errors(body: Any) -> Any:
    """The parts of an error document, the sentence apart."""
    listed = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
        return words(body) if isinstance(body, str) else body
    first = {k: v for k, v in listed[0].items() if k != "request_id"}
    first["request_id given"] = "request_id" in listed[0]
    first["detail"] = words(first.get("detail"))
    return first


def with_sets(value: Any) -> Any:
    """A successful body with every list as a set, at any depth."""
    if isinstance(value, dict):
        return {k: with_sets(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted((with_sets(v) for v in value), key=key)
    return value


def are_equal_with_types(left: Any, right: Any) -> bool:
    """Whether both are equal, also in their types: 1 is not 1.0, because clients in typed languages notice."""
    return key(left) == key(right)


def compare_headers(left: Response, right: Response) -> str:
    for name in EXACT_HEADERS:
        if left.get(name) != right.get(name):
            return f"header {name}: {left.get(name)!r} and {right.get(name)!r}"
    for name in PRESENT_HEADERS:
        if (left.get(name) is None) != (right.get(name) is None):
            return f"header {name}: {left.get(name)!r} and {right.get(name)!r}"
    for name, clean in (("location", _path_of), ("allow", _methods)):
        if clean(left.get(name)) != clean(right.get(name)):
            return f"header {name}: {left.get(name)!r} and {right.get(name)!r}"
    return ""


def _path_of(location: str | None) -> str | None:
    return location and re.sub(r"^https?://[^/]*", "", location)


def _methods(allow: str | None) -> list[str] | None:
    return allow and sorted(re.split(r"\s*,\s*", allow))


def shape(request: Request) -> tuple[bool, bool, bool, set[str], str]:
    """Of a candidates query: what makes the reference's answer depend on chance.

    Gives whether there is an unsuffixed group and whether there are suffixed
    ones, whether a class is asked for in both, the classes of the unsuffixed
    group, and the group policy.
    """
    plain: set[str] = set()
    suffixed: set[str] = set()
    policy = ""
    any_suffixed = False
    for name, value in parse_qsl(request.path.partition("?")[2]):
        if name == "group_policy":
            policy = policy or value
        if name.startswith(("resources", "required")):
            classes = {part.partition(":")[0].strip() for part in value.split(",")}
            if name == "resources":
                plain |= classes
            elif name != "required":
                any_suffixed = True
                if name.startswith("resources"):
                    suffixed |= classes
    return bool(plain), any_suffixed, bool(plain & suffixed), plain, policy


def compare_candidates(
    request: Request, left: Any, right: Any, shared: set[str] | None
) -> str:
    """Candidates as sets; ``shared`` are the classes that sharing ones have."""
    has_plain, has_suffixed, has_common_class, plain, policy = shape(request)
    if has_common_class and policy != "none":
        return ""  # the reference adds up amounts of other candidates
    left_candidates = Counter(candidate(c) for c in left["allocation_requests"])
    right_candidates = Counter(candidate(c) for c in right["allocation_requests"])
    if any("mappings" in c for c in right["allocation_requests"]):
        # Mappings are shown, so that no two candidates may be equal. Below 1.34 they may differ in mappings only.
        doubled = sum(right_candidates.values()) - len(right_candidates)
        if doubled:
            return f"{doubled} candidates listed twice by the right one"
        left_candidates = Counter(set(left_candidates))
    by_chance = has_plain and has_suffixed and (shared is None or plain <= shared)
    if left_candidates != right_candidates and not (by_chance and left_candidates <= right_candidates):
        only_left = [json.loads(c) for c in sorted(left_candidates - right_candidates)[:3]]
        only_right = [json.loads(c) for c in sorted(right_candidates - left_candidates)[:3]]
        return (
            f"candidates: {sum(left_candidates.values())} and {sum(right_candidates.values())};"
            f" only left {only_left}; only right {only_right}"
        )
    left_summaries, right_summaries = summaries(left), summaries(right)
    for provider in sorted(set(left_summaries) | set(right_summaries)):
        if by_chance and provider not in left_summaries:
            continue
        if not are_equal_with_types(left_summaries.get(provider), right_summaries.get(provider)):
            return (
                f"summary of {provider}: {left_summaries.get(provider)}"
                f" and {right_summaries.get(provider)}"
            )
    if set(left) != set(right):
        return f"keys: {sorted(left)} and {sorted(right)}"
    return ""


def compare(
    request: Request, left: Response, right: Response, shared: set[str] | None
) -> str:
    """What differs, in words; empty when nothing does."""
    if left.status >= 500:
        if right.status >= 500:
            return f"status {left.status} and {right.status}"
        return ""  # where the reference fails, any clear refusal is right
    if left.status != right.status:
        return f"status {left.status} and {right.status}"
    different = compare_headers(left, right)
    if different:
        return different
    left_body, right_body = json_of(left), json_of(right)
    if left.status >= 400:
        left_error, right_error = errors(left_body), errors(right_body)
        if not isinstance(left_error, dict) or not isinstance(right_error, dict):
            return "" if left_error == right_error else f"error body: {left_body!r} and {right_body!r}"
        if isinstance(request.body, bytes) and NO_NUMBER.search(request.body):
            # No JSON, but the reference's library reads it as a number.
            left_error["detail"] = right_error["detail"] = None
        for name in sorted(set(left_error) | set(right_error)):
            if left_error.get(name) != right_error.get(name):
                return (
                    f"error {name}: {_member_of_first_error(left_body, name)!r} and {_member_of_first_error(right_body, name)!r}"
                )
        return ""
    path = request.path.partition("?")[0]
    if path == "/allocation_candidates" and left.status == 200:
        return compare_candidates(request, left_body, right_body, shared)
    if are_equal_with_types(with_sets(left_body), with_sets(right_body)):
        return ""
    return f"body: {json.dumps(left_body)} and {json.dumps(right_body)}"


def _member_of_first_error(body: Any, name: str) -> Any:
    try:
        return body["errors"][0].get(name)
    except (KeyError, IndexError, TypeError, AttributeError):
        return body
