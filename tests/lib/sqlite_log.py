"""The frames of SQLite's write-ahead log (https://www.sqlite.org/fileformat2.html#walformat).

A header of 32 bytes has the size of a page at 8 and the log's salt at 16. Each frame has 24 bytes before its page: at 4
the number of pages of the database if it ends a transaction, else 0; at 8 the salt, if the frame is valid.
"""

import itertools
from collections.abc import Iterator

HEAD = 32
FRAME_HEAD = 24


def page_bytes(log: bytes) -> int:
    return int.from_bytes(log[8:12], "big")


def frames(log: bytes) -> Iterator[tuple[int, int, bool]]:
    """The valid frames: where each begins and ends, and whether it ends a transaction."""
    size = FRAME_HEAD + page_bytes(log)
    for at in itertools.count(HEAD, size):
        if at + size > len(log) or log[at + 8 : at + 16] != log[16:24]:
            return
        yield at, at + size, any(log[at + 4 : at + 8])


def end(log: bytes) -> int:
    """The end of the last transaction."""
    ends = [end for _, end, is_last in frames(log) if is_last]
    return ends[-1] if ends else HEAD
