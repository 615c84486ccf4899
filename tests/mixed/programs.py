"""The two programs of the test: this release, and the one before it.

The old program is built from its commit, in a folder below cargo's target folder, and kept there for the next run.
"""

import os
import pathlib
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def target_folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def version(program: pathlib.Path) -> str:
    """The version that a program prints. Ends the test if the program does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise SystemExit(f"{program} cannot be run: {error}") from error
    if done.returncode != 0:
        raise SystemExit(f"{program} --version: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def built_from(commit: str) -> pathlib.Path:
    """The program of a commit; building it takes minutes the first time."""
    folder = target_folder() / "mixed" / commit
    program = folder / "placewright"
    if program.exists():
        return program
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    print(f"building {commit} in {folder}", flush=True)
    archive = subprocess.Popen(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
            files.extractall(source, filter="data")
    except tarfile.TarError as error:
        raise SystemExit(f"commit {commit} is not in this clone ({error}); fetch it, or name --old") from error
    if archive.wait() != 0:
        raise SystemExit(f"commit {commit} is not in this clone; fetch it, or name --old")
    command = ["cargo", "build", "--release", "--locked", "--bin", "placewright"]
    command += ["--target-dir", str(folder / "target")]
    if subprocess.run(command, cwd=source).returncode != 0:
        raise SystemExit(f"commit {commit} cannot be built")
    os.replace(folder / "target/release/placewright", program)
    return program
