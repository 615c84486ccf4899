"""One process of the fuzzer: draws, sends and checks requests in a row."""

import base64
import collections
import dataclasses
import heapq
import json
import pathlib
import random
import time
from collections import Counter

import broken
import checks
import wire
from generate import Generator, Pools
from request import Generations, Request
from trees import World

# How many messages are kept to replay a failure.
HISTORY = 400
# How many requests are sent about one set of names.
EPISODE = 600
# The share of messages that are no good HTTP.
BROKEN = 0.02
# How many of the slowest requests are kept.
SLOWEST = 10


@dataclasses.dataclass
class Outcome:
    """What a worker found."""

    sent: int = 0
    statuses: Counter = dataclasses.field(default_factory=Counter)
    routes: Counter = dataclasses.field(default_factory=Counter)
    slowest: list = dataclasses.field(default_factory=list)
    failures: list = dataclasses.field(default_factory=list)
    failed: int = 0
    dead: bool = False


class Worker:
    """Sends ``count`` requests; all that it draws comes from seed and index."""

    def __init__(
        self, port: int, seed: str, index: int, count: int, out: pathlib.Path
    ) -> None:
        self.index = index
        self.count = count
        self.out = out
        self.rng = random.Random(f"{seed}/{index}")
        self.connection = wire.Connection("127.0.0.1", port, timeout=15)
        self.outcome = Outcome()
        self.history: collections.deque = collections.deque(maxlen=HISTORY)
        self.kinds: set[str] = set()
        self.generations = Generations()

    def run(self, progress) -> Outcome:
        while self.outcome.sent < self.count and not self.outcome.dead:
            self._episode(min(EPISODE, self.count - self.outcome.sent))
            progress.value = self.outcome.sent
        return self.outcome

    def _episode(self, length: int) -> None:
        """Requests about one set of names, which are deleted at the end."""
        rng = self.rng
        end = self.outcome.sent + length
        scope = f"{rng.getrandbits(32):08x}"
        self.generations = Generations()
        if rng.random() < 0.5:
            world = World(rng, scope)
            pools, generator = world.pools, world.generator
            for request in world.requests[:length]:
                self._send(request)
        else:
            pools = Pools(rng, scope, size=rng.choice([3, 6, 10]))
            generator = Generator(rng, pools)
        generator.chaos_rate = rng.choice([0.0, 0.1, 0.3, 0.6, 1.0])
        while self.outcome.sent < end and not self.outcome.dead:
            if rng.random() < BROKEN:
                self._send_broken(broken.message(rng))
                continue
            request = generator.any_request()
            status = self._send(request)
            pools.observe(request, status)
        self._tidy(pools)

    def _tidy(self, pools: Pools) -> None:
        """Deletes what the episode made, so that the server's state stays small. It is not checked or counted."""
        for consumer in pools.consumers:
            self._quietly("DELETE", f"/allocations/{consumer}")
        for _ in range(4):
            for provider in pools.providers:
                self._quietly("DELETE", f"/resource_providers/{provider}")

    def _quietly(self, method: str, path: str) -> None:
        data = Request(method, path, "1.39").encode(self.generations)
        try:
            self.connection.exchange_with_retry(data, method)
        except (wire.WireError, OSError):
            self.connection.close()

    def _send(self, request: Request) -> int:
        data = request.encode(self.generations)
        self.history.append(("request", data, [request.method]))
        outcome = self.outcome
        outcome.sent += 1
        outcome.routes[f"{request.method} {request.route}"[:60]] += 1
        try:
            if self.connection.socket is not None and not self.connection.is_idle():
                self.connection.close()
                self._fail("closed between requests, unsaid", request, data, "")
            response = self.connection.exchange(data, request.method)
        except (wire.WireError, OSError) as error:
            outcome.statuses["none"] += 1
            name = f"{type(error).__name__}: {error}"
            self._fail(name, request, data, "")
            self._check_alive()
            return 0
        outcome.statuses[response.status] += 1
        self._note_time(response.seconds, request)
        if response.status < 300:
            self._learn(request, response)
        problem = checks.problem_with(request, response)
        if problem:
            self._fail(problem, request, data, response.body[:2000].decode("latin-1"))
        return response.status

    def _learn(self, request: Request, response: wire.Response) -> None:
        if request.method == "GET" and len(response.body) > 20_000:
            return
        try:
            reply = json.loads(response.body) if response.body else None
            self.generations.learn(request, response.status, reply)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # an odd request was accepted; the generations are only less well known

    def _note_time(self, seconds: float, request: Request) -> None:
        entry = (seconds, f"{request.method} {request.path[:300]}")
        if len(self.outcome.slowest) < SLOWEST:
            heapq.heappush(self.outcome.slowest, entry)
        else:
            heapq.heappushpop(self.outcome.slowest, entry)

    def _send_broken(self, message: broken.Message) -> None:
        outcome = self.outcome
        outcome.sent += 1
        outcome.routes[f"HTTP: {message.name}"] += 1
        self.history.append((message.name, message.data, message.methods))
        self.connection.close()
        got = 0
        try:
            self.connection.send(message.data)
            if message.hang_up:
                return
            for method in message.methods:
                response = self.connection.receive(method)
                got += 1
                outcome.statuses[response.status] += 1
                if response.status >= 500 or response.seconds > checks.SLOWEST_S:
                    text = f"status {response.status} in {response.seconds:.2f} s"
                    self._fail(f"{message.name}: {text}", None, message.data, "")
                if self.connection.socket is None and got < len(message.methods):
                    raise wire.Closed(f"closed after {got} answers")
        except TimeoutError:
            self._fail(f"{message.name}: no answer", None, message.data, "")
        except (wire.WireError, OSError) as error:
            outcome.statuses["closed"] += 1
            if not message.may_close or not isinstance(error, (wire.Closed, OSError)):
                text = f"{message.name}: {type(error).__name__}: {error}"
                self._fail(text, None, message.data, "")
            self._check_alive()
        finally:
            # What is left of a broken message must not hit the next request.
            self.connection.close()

    def _check_alive(self) -> None:
        for _ in range(20):
            try:
                self.connection.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET")
                return
            except (wire.WireError, OSError):
                self.connection.close()
                time.sleep(0.1)
        self.outcome.dead = True

    def _fail(self, problem: str, request: Request | None, data: bytes, body: str):
        """Count a failure; keep the history of the first failure of each kind."""
        outcome = self.outcome
        outcome.failed += 1
        route = request.route if request else "HTTP"
        kind = f"{request.method if request else ''} {route} {problem[:60]}"
        if kind in self.kinds or len(outcome.failures) >= 20:
            return
        self.kinds.add(kind)
        self.out.mkdir(parents=True, exist_ok=True)
        file = self.out / f"{self.index}-{len(outcome.failures)}.jsonl"
        with file.open("w") as lines:
            for name, sent, methods in self.history:
                record = {
                    "name": name,
                    "data": base64.b64encode(sent).decode(),
                    "methods": methods,
                }
                lines.write(json.dumps(record) + "\n")
        curl = (
            request.curl("http://127.0.0.1:PORT", self.generations) if request else ""
        )
        outcome.failures.append((problem, data[:1500], curl[:3000], str(file), body))
