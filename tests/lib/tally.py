"""Count steps that passed and failed, and print one line for each."""

import sys


class Tally:
    """Prints as it counts; ``finish`` prints the last line of a tool."""

    def __init__(self, quiet: bool = False) -> None:
        self.passed = 0
        self.failed = 0
        self.quiet = quiet

    def check(self, name: str, ok: bool, detail: str = "") -> bool:
        if ok:
            self.passed += 1
            if not self.quiet:
                print(f"ok      {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED  {name}", flush=True)
            for line in detail.splitlines():
                print(f"        {line}", flush=True)
        return ok

    def finish(self) -> int:
        """Print the last line; the exit status that goes with it."""
        sys.stdout.flush()
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0
