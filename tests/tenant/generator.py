"""One member's flood: hunts for the costliest request of every route, and sends the rest in bulk.

Some connections hunt: one request at a time, mostly changes of what cost most. The others flood: many
requests together, one after the other of every route, the costliest that do not keep the connection
for long. They flood while fewer were answered than should be by now, and hunt else; so the number of
requests is reached, and the costly ones never stop. A single connection does both by turns.
"""

import collections
import itertools
import json
import random
import selectors
import socket
import time

from wishes import Wish, mutated, seeds

# One in so many connections does nothing but hunt.
HUNTERS = 4
# A single connection hunts for this share of its time, whatever else it should send.
HUNTING = 0.2
TOGETHER_MAX = 24
TOGETHER_BYTES = 200_000
ROUTE_WISHES_MAX = 8
COSTLIEST = 60
# The requested number of requests should be reached after this share of the time.
AHEAD = 0.93
# What one request in bulk may cost, in seconds, at least and at most: the limit grows by DEARER while enough
# requests are answered, and shrinks by CHEAPER when they are late.
LIGHT_S = (0.0005, 0.5)
DEARER, CHEAPER = 1.01, 0.9
LATE_S = 0.5
VERY_LATE_S = 2
SILENCE_S = 30
ANSWER_KEPT = 4096
READ_BYTES = 1 << 18


class Broken(Exception):
    """The connection cannot be used any more."""


class Reader:
    """Reads answers from a connection; of their bodies only the beginning is kept."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.state = self.head
        self.need = 0
        self.status = 0
        self.closes = False
        self.is_chunked = False
        self.body = b""

    def answers(self, data: bytes):
        """Whatever is complete with these bytes: status, beginning of the body, whether it is the last."""
        self.data += data
        while self.state():
            if self.need < 0:
                self.need, self.state = 0, self.head
                yield self.status, self.body, self.closes

    def head(self) -> bool:
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.data[:end]).lower()
        del self.data[: end + 4]
        self.status = int(head[9:12])
        self.closes = b"\r\nconnection: close" in head
        self.is_chunked = b"\r\ntransfer-encoding: chunked" in head
        self.body = b""
        if self.is_chunked:
            self.state = self.chunk
            return True
        at = head.find(b"\r\ncontent-length:")
        self.need = int(head[at + 17 :].split(b"\r", 1)[0]) if at >= 0 else 0
        if self.need == 0:
            self.need = -1
        else:
            self.state = self.rest
        return True

    def chunk(self) -> bool:
        end = self.data.find(b"\r\n")
        if end < 0:
            return False
        size = int(bytes(self.data[:end]).split(b";")[0], 16)
        del self.data[: end + 2]
        self.is_chunked = size > 0
        self.need = size + 2
        self.state = self.rest
        return True

    def rest(self) -> bool:
        taken = min(self.need, len(self.data))
        if taken == 0:
            return False
        if len(self.body) < ANSWER_KEPT:
            self.body += bytes(self.data[: min(taken, ANSWER_KEPT)])
        del self.data[:taken]
        self.need -= taken
        if self.need:
            return False
        if self.is_chunked:
            self.state = self.chunk
        else:
            self.need = -1
        return True


class Link:
    """A connection, with what was sent over it and not answered yet."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.reader = Reader()
        self.unsent = memoryview(b"")

    def write(self) -> None:
        while self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                return

    def read(self):
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Broken
        yield from self.reader.answers(data)


class Worker:
    """One caller. It has a connection for each API, and uses one of them at a time."""

    def __init__(self, hunts: bool) -> None:
        self.hunts = hunts
        self.links: dict[str, Link] = {}
        self.api = ""
        self.under_way: collections.deque[Wish] = collections.deque()
        self.since = 0.0
        self.is_hunting = False


class Population:
    """The requests to send: of each route the costliest that were found so far."""

    def __init__(self) -> None:
        self.routes: dict[tuple, list[Wish]] = {}
        self.seeds = seeds()
        self.fresh = collections.deque(self.seeds)
        self.costliest: list[Wish] = []
        self.in_turn: collections.deque[tuple] = collections.deque()
        self.learned = itertools.count(1)
        self.drawn = itertools.count()
        self.least_s = 0.0
        self.project: dict[str, list[str]] = {"server": [], "group": [], "key": []}

    def hunt(self) -> Wish:
        if self.fresh:
            return self.fresh.popleft()
        if not self.routes:
            return mutated(random.choice(self.seeds))
        if self.costliest and random.random() < 0.5:
            chosen = random.choice(self.costliest)
        else:
            # The costliest of four that are drawn: mostly one that costs much, sometimes another one.
            rows = random.choices(list(self.routes.values()), k=4)
            chosen = max((random.choice(row) for row in rows), key=lambda wish: wish.cost)
        return mutated(chosen) if random.random() < 0.5 else chosen

    def light(self, most: float, api: str | None, is_late: bool) -> Wish | None:
        """The costliest request of the next route that does not cost more than ``most``.

        When everything costs more than it should, half of the routes go on with their cheapest; and the
        cheapest is taken when very many requests are missing.
        """
        if next(self.drawn) % 100 == 0:
            cheapest = sorted(min(one.cost for one in row) for row in self.routes.values())
            self.least_s = cheapest[len(cheapest) // 2]
        most = max(most, self.least_s)
        for _ in range(len(self.in_turn)):
            route = self.in_turn[0]
            self.in_turn.rotate(-1)
            if api is not None and route[0] != api:
                continue
            # Requests that end the connection cost this program more than the server.
            may_close = random.random() < 0.1
            every = self.routes[route]
            row = [one for one in every if one.cost <= most and (may_close or not one.closes)]
            if row:
                if is_late:
                    return min(row, key=lambda wish: wish.cost)
                draw = random.random()
                if draw < 0.6:
                    return max(row, key=lambda wish: wish.cost)
                chosen = random.choice(row)
                return mutated(chosen) if draw > 0.9 else chosen
        return None

    def learn(self, wish: Wish, seconds: float, status: int, answer: bytes) -> None:
        wish.cost = seconds if wish.cost == 0 else (wish.cost + seconds) / 2
        if not wish.is_known:
            wish.is_known = True
            row = self.routes.get(wish.route)
            if row is None:
                row = self.routes[wish.route] = []
                self.in_turn.append(wish.route)
            row.append(wish)
            if len(row) > ROUTE_WISHES_MAX:
                # The second cheapest is removed. The cheapest stays, for routes whose other requests all cost too
                # much for the flood.
                row.sort(key=lambda one: one.cost)
                row.pop(1).is_known = False
        if next(self.learned) % 200 == 0:
            every = [one for row in self.routes.values() for one in row]
            every.sort(key=lambda one: one.cost, reverse=True)
            self.costliest = every[:COSTLIEST]
        if wish.method == "POST" and 200 <= status < 300:
            self.note(answer)

    def note(self, answer: bytes) -> None:
        """Remembers what was made, for requests that name a server, a group or a key pair."""
        try:
            made = json.loads(answer)
        except ValueError:
            return
        for key, kind, name in (
            ("server", "server", "id"),
            ("server_group", "group", "id"),
            ("keypair", "key", "name"),
        ):
            if isinstance(made, dict) and isinstance(made.get(key), dict) and name in made[key]:
                known = self.project[kind]
                known.append(str(made[key][name]))
                del known[:-500]


class Attacker:
    """Sends requests until the time is over, and so fast that a given number of them is answered by then."""

    def __init__(self, ports: dict[str, int], token: str, connections: int) -> None:
        self.ports = ports
        self.token = token
        self.population = Population()
        self.workers = [Worker(connections > 1 and n % HUNTERS == 0) for n in range(connections)]
        self.selector = selectors.DefaultSelector()
        self.statuses: collections.Counter = collections.Counter()
        self.answered = 0
        self.hunted = 0
        self.light_s = LIGHT_S[0]
        self.rate = 0.0
        self.began = 0.0
        self.hunting_s = 0.0

    def run(self, requests: int, seconds: float) -> None:
        began = self.began = time.monotonic()
        self.rate = requests / (seconds * AHEAD)
        while (now := time.monotonic()) < began + seconds:
            due = (now - began) * self.rate
            for worker in self.workers:
                if not worker.under_way:
                    self.go_on(worker, int(due - self.answered))
                elif now - worker.since > SILENCE_S:
                    self.broken(worker, "no answer for 30 s")
            for key, events in self.selector.select(0.02):
                self.ready(key.data, key.fileobj, events)

    def go_on(self, worker: Worker, missing: int) -> None:
        """Sends the next requests of a worker: one that costs much, or many that cost little."""
        wishes = []
        is_behind = missing > 0 and not worker.hunts and self.answered > len(self.workers)
        if len(self.workers) == 1 and self.hunting_s < HUNTING * (time.monotonic() - self.began):
            is_behind = False
        if not worker.hunts:
            # What is sent in bulk costs as much as the requested number of requests allows.
            factor = DEARER if missing < self.rate * LATE_S else CHEAPER
            self.light_s = min(max(self.light_s * factor, LIGHT_S[0]), LIGHT_S[1])
        is_late = missing > self.rate * VERY_LATE_S
        if is_behind and (first := self.population.light(self.light_s, None, is_late)):
            wishes.append(first)
            size = len(first.content or b"")
            for _ in range(min(missing, TOGETHER_MAX) - 1):
                if size > TOGETHER_BYTES or wishes[-1].closes:
                    # What is sent after a request that ends the connection is not answered.
                    break
                wish = self.population.light(self.light_s, first.api, is_late)
                if wish is None:
                    break
                wishes.append(wish)
                size += len(wish.content or b"")
        else:
            wishes.append(self.population.hunt())
            self.hunted += 1
        worker.is_hunting = len(wishes) == 1
        worker.api = wishes[0].api
        port = self.ports[worker.api]
        worker.under_way.extend(wishes)
        worker.since = time.monotonic()
        link = worker.links.get(worker.api)
        try:
            if link is None:
                link = worker.links[worker.api] = Link(port)
                self.selector.register(link.socket, selectors.EVENT_READ, worker)
            host = f"127.0.0.1:{port}"
            project = self.population.project
            data = b"".join(wish.data(host, self.token, project) for wish in wishes)
            link.unsent = memoryview(data)
            self.send(worker, link)
        except OSError:
            self.broken(worker, "closed")

    def send(self, worker: Worker, link: Link) -> None:
        link.write()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.unsent else 0)
        if self.selector.get_key(link.socket).events != wanted:
            self.selector.modify(link.socket, wanted, worker)

    def ready(self, worker: Worker, sock: socket.socket, events: int) -> None:
        link = next((one for one in worker.links.values() if one.socket is sock), None)
        if link is None:
            return
        try:
            if events & selectors.EVENT_READ:
                for status, body, closes in link.read():
                    if not worker.under_way:
                        raise Broken
                    now = time.monotonic()
                    wish = worker.under_way.popleft()
                    self.population.learn(wish, now - worker.since, status, body)
                    if worker.is_hunting:
                        self.hunting_s += now - worker.since
                    worker.since = now
                    self.answered += 1
                    self.statuses[status] += 1
                    wish.closes = closes
                    if closes:
                        # What was sent after this request is not answered, which is no failure.
                        self.drop(worker, link)
                        return
            if events & selectors.EVENT_WRITE:
                self.send(worker, link)
        except (OSError, ValueError, Broken):
            if worker.under_way and worker.links.get(worker.api) is link:
                self.broken(worker, "closed")
            else:
                self.drop(worker, link)

    def broken(self, worker: Worker, why: str) -> None:
        """Counts an answer that does not come, and connects anew."""
        if worker.under_way:
            waited = time.monotonic() - worker.since
            self.population.learn(worker.under_way[0], waited, 0, b"")
            self.statuses[why] += 1
        link = worker.links.get(worker.api)
        if link is not None:
            self.drop(worker, link)
        worker.under_way.clear()

    def drop(self, worker: Worker, link: Link) -> None:
        self.selector.unregister(link.socket)
        link.socket.close()
        of_link = [api for api, one in worker.links.items() if one is link]
        for api in of_link:
            del worker.links[api]
            if api == worker.api:
                worker.under_way.clear()

    def costliest(self, number: int) -> list[Wish]:
        every = [wish for row in self.population.routes.values() for wish in row]
        return sorted(every, key=lambda wish: wish.cost, reverse=True)[:number]
