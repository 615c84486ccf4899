"""Calls of openstacksdk by their names, counted one by one."""

import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator

import installation
import openstack
from openstack import exceptions

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402


class Broken(Exception):
    """A call failed, and what comes after it in its part makes no sense."""


class Calls:
    """A connection whose calls are counted: what they are named, and whether they worked.

    A call is named as programs write it: ``create_server`` for the cloud layer, ``compute.create_flavor`` for a service.
    """

    def __init__(self, cloud: installation.Installation, tally: Tally, name: str = "placewright") -> None:
        os.environ["OS_CLIENT_CONFIG_FILE"] = str(cloud.clouds)
        self.connection = openstack.connect(cloud=name)
        self.tally = tally
        self.name = name
        self.made = 0
        self.methods: set[str] = set()

    def _find(self, name: str) -> Callable:
        found = self.connection
        for part in name.split("."):
            found = getattr(found, part)
        self.made += 1
        self.methods.add(name)
        return found

    def __call__(self, name: str, /, *words: object, **more: object) -> object:
        """Make a call that has to work, and return what it returns; the elements, if it returns a generator."""
        try:
            answer = self._find(name)(*words, **more)
            if isinstance(answer, types.GeneratorType) or inspect.isgenerator(answer):
                answer = list(answer)
        except Exception as error:
            self.tally.check(f"{self._shown(name)}", False, f"{type(error).__name__}: {error}")
            raise Broken(name) from error
        self.tally.check(self._shown(name), True)
        return answer

    def refused(self, status: int, word: str, name: str, /, *words: object, **more: object) -> None:
        """Make a call that has to be refused, with this status and a reason that has this word."""
        shown = f"{self._shown(name)} is refused with {status}"
        try:
            answer = self._find(name)(*words, **more)
            answer = list(answer) if inspect.isgenerator(answer) else answer
        except exceptions.HttpException as error:
            said = f"{error} {error.details}"
            self.tally.check(shown, error.status_code == status and word in said, f"{error.status_code}: {said}")
        except Exception as error:
            self.tally.check(shown, False, f"{type(error).__name__}: {error}")
        else:
            self.tally.check(shown, False, f"it returned {answer!r}")

    def check(self, what: str, ok: object, seen: object = "") -> None:
        self.tally.check(what, bool(ok), repr(seen))

    def _shown(self, name: str) -> str:
        return name if self.name == "placewright" else f"{name} as {self.name}"


def run_parts(tally: Tally, parts: Iterator[Callable[[], None]]) -> None:
    """Run one part after the other; a part that breaks ends early, and the others go on."""
    for part in parts:
        try:
            part()
        except Broken:
            print(f"        the rest of {part.__name__} was left out", flush=True)
        except Exception as error:
            tally.check(f"what {part.__name__} reads is there", False, f"{type(error).__name__}: {error}")
