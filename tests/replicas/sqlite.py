"""No engine at all: the one replica keeps its journal in files."""

import pathlib

from layout import Layout
from processes import Process


class Sqlite:
    """SQLite runs in the replica itself, so there is nothing to start."""

    def __init__(self, folder: pathlib.Path, layout: Layout) -> None:
        self.members: list[Process] = []
        self.folder = folder

    @staticmethod
    def missing() -> str | None:
        return None

    def store_url(self) -> str:
        return f"sqlite:{self.folder / 'store'}"

    def start(self) -> None:
        pass

    def start_ended(self) -> list[str]:
        return []

    def leader(self) -> int | None:
        return None

    def look(self) -> None:
        pass

    def stop(self) -> None:
        pass
