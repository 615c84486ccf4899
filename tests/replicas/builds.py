"""The programs of this repository, as they were built."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROFILES = ("release", "ci", "quick", "debug")


def program_of(variable: str, name: str) -> pathlib.Path:
    """The program that the variable names, or else the best build of it."""
    named = os.environ.get(variable)
    if named:
        path = pathlib.Path(named).absolute()
        if not os.access(path, os.X_OK):
            raise SystemExit(f"{variable}: there is no program {path}")
        return path
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in PROFILES:
        path = target / profile / name
        if path.exists():
            return path
    raise SystemExit(
        f"{name} is not built: `cargo build --release -p placewright-cli`, or name it with {variable}"
    )
