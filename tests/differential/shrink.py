"""Make the history of a difference as short as possible."""

import copy
import dataclasses
import time

import chaos
from request import Request
from rounds import Difference, ask_both, consumers_of, heal
from sides import Pair


class Shrinker:
    """Replays shorter histories while they end in the same difference."""

    def __init__(self, pair: Pair, difference: Difference, seconds: float) -> None:
        self.pair = pair
        self.best = difference
        self.deadline = time.monotonic() + seconds

    def out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def attempt(self, requests: list[Request]) -> bool:
        """Play a history; if it shows the same difference, keep it as the best one. Gives whether it does."""
        if self.out_of_time():
            return False
        self.pair.reset(consumers_of(requests))
        *before, last = requests
        played = []
        for request in before:
            played.append(request.resolved(self.pair.generations))
            left, _ = self.pair.send(request)
            heal(self.pair, request, left.status)
        played.append(last.resolved(self.pair.generations))
        text, left, right = ask_both(self.pair, last, self.best.shared)
        found = dataclasses.replace(
            self.best,
            requests=requests,
            played=played,
            text=text,
            left=left,
            right=right,
        )
        if not text or found.signature != self.best.signature:
            return False
        self.best = found
        return True

    def run(self) -> Difference:
        if not self.attempt(self.best.requests):
            return self.best  # the difference does not come again on empty servers
        self._fewer_requests()
        self._shorter_query()
        self._smaller_bodies()
        self._fewer_requests()
        return self.best

    def _fewer_requests(self) -> None:
        size = max(1, (len(self.best.requests) - 1) // 2)
        while size:
            index = 0
            while index < len(self.best.requests) - 1:
                before = self.best.requests[:-1]
                shorter = before[:index] + before[index + size :]
                if not self.attempt([*shorter, self.best.requests[-1]]):
                    index += size
            size //= 2

    def _shorter_query(self) -> None:
        index = 0
        while True:
            last = self.best.requests[-1]
            path, question_mark, query = last.path.partition("?")
            pairs = query.split("&") if question_mark else []
            if index >= len(pairs):
                return
            rest = "&".join(pairs[:index] + pairs[index + 1 :])
            shorter = dataclasses.replace(last, path=f"{path}?{rest}" if rest else path)
            if not self.attempt([*self.best.requests[:-1], shorter]):
                index += 1

    def _smaller_bodies(self) -> None:
        for index in range(len(self.best.requests)):
            for path in reversed(chaos.paths_in(self.best.requests[index].body)[1:]):
                request = self.best.requests[index]
                body = copy.deepcopy(request.body)
                container = body
                for step in path[:-1]:
                    container = container[step]
                del container[path[-1]]
                requests = list(self.best.requests)
                requests[index] = dataclasses.replace(request, body=body)
                self.attempt(requests)
