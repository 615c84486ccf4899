"""A stand-in for the HTTP connection of Nova's placement client."""

import time
from urllib import parse

import os_traits
import requests
from oslo_serialization import jsonutils

# About as many as a host of libvirt reports.
TRAITS = [name for name in os_traits.get_traits(prefix="COMPUTE_")][:30]


class Placement:
    """Knows how many instances fit on each host, and answers as placement does.

    Placement's answers come from its hosts with room, in a fixed order, not more of them than asked for.
    """

    def __init__(self, uuids: list, places: list, amounts: dict, host_places: int) -> None:
        self.uuids = uuids
        self.places_at_start = places
        self.amounts = amounts
        self.host_places = host_places
        self.seconds = 0.0
        self.candidates = 0
        self.reset()

    def reset(self) -> None:
        """Release all claims."""
        self.places = dict(zip(self.uuids, self.places_at_start))

    def get(self, url: str, **_kwargs) -> requests.Response:
        start = time.perf_counter()
        path, _, query = url.partition("?")
        if path == "/allocation_candidates":
            limit = int(dict(parse.parse_qsl(query))["limit"])
            found = answer(200, self.candidates_body(limit))
        elif path.startswith("/allocations/"):
            found = answer(200, {"allocations": {}})
        else:
            raise AssertionError(f"GET {url}")
        self.seconds += time.perf_counter() - start
        return found

    def put(self, url: str, json: dict, **_kwargs) -> requests.Response:
        start = time.perf_counter()
        assert url.startswith("/allocations/"), url
        [(host, allocation)] = json["allocations"].items()
        assert allocation["resources"] == self.amounts, allocation
        if self.places[host] > 0:
            self.places[host] -= 1
            found = answer(204, None)
        else:
            error = {"code": "placement.undefined_code", "detail": "no room"}
            found = answer(409, {"errors": [error]})
        self.seconds += time.perf_counter() - start
        return found

    def candidates_body(self, limit: int) -> dict:
        with_room = [uuid for uuid in self.uuids if self.places[uuid] > 0][:limit]
        self.candidates = len(with_room)
        return {
            "allocation_requests": [
                {
                    "allocations": {uuid: {"resources": self.amounts}},
                    "mappings": {"": [uuid]},
                }
                for uuid in with_room
            ],
            "provider_summaries": {uuid: self.summary(uuid) for uuid in with_room},
        }

    def summary(self, uuid: str) -> dict:
        taken = self.host_places - self.places[uuid]
        resources = {
            name: {"capacity": amount * self.host_places, "used": amount * taken}
            for name, amount in self.amounts.items()
        }
        return {
            "resources": resources,
            "traits": TRAITS,
            "parent_provider_uuid": None,
            "root_provider_uuid": uuid,
        }


def answer(status: int, body) -> requests.Response:
    """An answer as it comes over HTTP: whoever wants its content has to parse it."""
    made = requests.Response()
    made.status_code = status
    made.encoding = "utf-8"
    made._content = b"" if body is None else jsonutils.dump_as_bytes(body)
    return made
