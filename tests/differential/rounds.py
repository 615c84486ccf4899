"""A round: requests from one seed, sent to both, compared one by one."""

import dataclasses
import random
import re
from urllib.parse import parse_qsl

import normal
import wire
from generate import Generator, Pools
from request import Request
from sides import Pair
from trees import World

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


@dataclasses.dataclass
class Difference:
    """One request that was answered differently, and what came before it."""

    seed: str
    requests: list[Request]
    text: str
    left: wire.Response
    right: wire.Response
    shared: set[str] | None
    # The requests with the generations that they were sent with, when known.
    played: list[Request] = dataclasses.field(default_factory=list)

    @property
    def signature(self) -> str:
        """Equal for differences that probably have one cause."""
        last = self.requests[-1]
        kind = self.text
        if kind.startswith(("body", "candidates", "summary", "keys")):
            kind = re.split(r"[ :]", kind)[0]
        else:
            kind = re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{20,}", "<uuid>", kind)
            kind = re.sub(r"'[^']*'|\d{6,}", "_", kind) if "header" in kind else kind
        return f"{last.method} {last.route}: {kind[:160]}"


def limit_of(request: Request) -> str | None:
    """The limit of a candidates query, when there is exactly one."""
    path, _, query = request.path.partition("?")
    if path != "/allocation_candidates":
        return None
    limits = [value for name, value in parse_qsl(query) if name == "limit"]
    return limits[0] if len(limits) == 1 else None


def without_limit(request: Request) -> Request:
    path, _, query = request.path.partition("?")
    kept = [pair for pair in query.split("&") if not pair.startswith("limit=")]
    return dataclasses.replace(request, path=f"{path}?{'&'.join(kept)}")


def ask_both(
    pair: Pair, request: Request, shared: set[str] | None
) -> tuple[str, wire.Response, wire.Response]:
    """Send a request to both servers and compare the answers; gives the difference in words, or nothing."""
    left, right = pair.send(request)
    if limit_of(request) is None or left.status != 200 or right.status != 200:
        return normal.compare(request, left, right, shared), left, right
    whole = without_limit(request)
    text, whole_left, whole_right = ask_both(pair, whole, shared)
    if not text:
        text = normal.compare_headers(left, right) or _limited(
            request, left, right, whole_left, whole_right
        )
    return text, left, right


def _limited(request, left, right, whole_left, whole_right) -> str:
    """Check answers with a limit. Servers may choose other candidates, but only ones that are there without limit."""
    limit = int(limit_of(request) or 0)
    mine, whole = normal.json_of(right), normal.json_of(whole_right)
    kept = [normal.candidate(c) for c in mine["allocation_requests"]]
    known = [normal.candidate(c) for c in whole["allocation_requests"]]
    if len(kept) != min(limit, len(known)):
        return f"limit {limit}: {len(kept)} of {len(known)} candidates"
    if not set(kept) <= set(known):
        return f"limit {limit}: a candidate that is not there without limit"
    used = {
        provider
        for entry in mine["allocation_requests"]
        for provider in providers_of(entry)
    }
    summaries, every = normal.summaries(mine), normal.summaries(whole)
    wanted = set(used)
    if any("root_provider_uuid" in summary for summary in every.values()):
        roots = {every[p]["root_provider_uuid"] for p in used if p in every}
        wanted = {p for p, s in every.items() if s["root_provider_uuid"] in roots}
    if set(summaries) != wanted:
        return f"limit {limit}: summaries of {sorted(summaries)}, not {sorted(wanted)}"
    for provider in wanted:
        if summaries[provider] != every[provider]:
            return f"limit {limit}: another summary of {provider} than without"
    return ""


def providers_of(entry: dict) -> list[str]:
    allocations = entry["allocations"]
    if isinstance(allocations, list):
        return [a["resource_provider"]["uuid"] for a in allocations]
    return list(allocations)


def consumers_of(requests: list[Request]) -> list[str]:
    """The consumers that are written by these requests."""
    found: set[str] = set()
    for request in requests:
        parts = request.path.partition("?")[0].split("/")
        if len(parts) > 2 and parts[1] == "allocations":
            found.add(parts[2])
        if request.method == "POST" and isinstance(request.body, dict):
            body = request.body
            if parts[1] == "reshaper":
                body = body.get("allocations")
            if parts[1] in ("allocations", "reshaper") and isinstance(body, dict):
                found.update(body)
    return sorted(name for name in found if UUID.match(name))


def heal(pair: Pair, request: Request, status: int) -> None:
    """Heal the consumers of a write that may have left them without allocations (see ``Pair.heal``)."""
    refused = status >= 400 and status not in (401, 403, 404, 405, 406, 415)
    if request.method in ("PUT", "POST") and (
        refused or "'allocations': {}" in repr(request.body)
    ):
        for consumer in consumers_of([request]):
            pair.heal(consumer)


def play_round(pair: Pair, seed: str, counts: dict[str, int]) -> list[Difference]:
    """One round; ends at the first write that was answered differently."""
    rng = random.Random(seed)
    scope = f"{rng.getrandbits(24):06x}"
    if rng.random() < 0.5:
        world = World(rng, scope)
        build, queries = world.requests, world.queries(30)
        return _play(pair, seed, [*build, *queries], world.shared_classes, counts)
    pools = Pools(rng, scope)
    generator = Generator(rng, pools, chaos_rate=rng.choice([0.0, 0.1, 0.4]))
    return _play_live(pair, seed, generator, counts)


def _play(pair, seed, requests, shared, counts) -> list[Difference]:
    found = []
    writes = []
    for request in requests:
        text, left, right = ask_both(pair, request, shared)
        count(counts, left, text)
        heal(pair, request, left.status)
        if request.method != "GET":
            writes.append(request)
        if text:
            done = [*writes, request] if request.method == "GET" else list(writes)
            found.append(Difference(seed, done, text, left, right, shared))
            if request.method != "GET":
                break
    return found


def _play_live(pair, seed, generator, counts) -> list[Difference]:
    """Each request is drawn with the knowledge of what the requests before it did."""
    found = []
    sent: list[Request] = []
    for _ in range(80):
        request = generator.any_request()
        text, left, right = ask_both(pair, request, None)
        if names_itself(request) and left.status == right.status < 300:
            text = ""
        count(counts, left, text)
        heal(pair, request, left.status)
        generator.pools.observe(request, left.status)
        sent.append(request)
        if names_itself(request) and left.status < 300:
            break  # each server made up a UUID of its own
        if text:
            done = [r for r in sent[:-1] if r.method not in ("GET", "HEAD")]
            found.append(Difference(seed, [*done, request], text, left, right, None))
        if left.status >= 500 or (text and request.method not in ("GET", "HEAD")):
            break  # the two servers may hold different things now
    return found


def names_itself(request: Request) -> bool:
    """Whether the server has to make up the new provider's UUID."""
    body = request.body if isinstance(request.body, dict) else {}
    return request.path == "/resource_providers" and "uuid" not in body and bool(body)


def count(counts: dict[str, int], left: wire.Response, text: str) -> None:
    outcome = "failed" if text else "passed"
    counts[outcome] = counts.get(outcome, 0) + 1
    status = f"answered {left.status}"
    counts[status] = counts.get(status, 0) + 1
