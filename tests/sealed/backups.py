"""Stores with sealed secrets are backed up and put back; no key is in a backup."""

import re
import subprocess

STORES = ("control", "cell-0", "cell-1")


def journal(site, *words) -> str:
    done = subprocess.run([site.program, "journal", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"journal {words}: {done.stderr}")
    return done.stdout


def restored(site, checks, store, what):
    """A store that is made from a backup of another one; its digest is compared."""
    target = site.folder / "backups" / f"{store} {what}"
    target.parent.mkdir(exist_ok=True)
    file = target.with_suffix(".backup")
    journal(site, "backup", site.folder / store, file)
    told = journal(site, "restore", file, target)
    entry, digest = re.search(r"restored to entry (\d+).*, digest ([0-9a-f]+)", told).groups()
    known = journal(site, "digest", "--store", site.folder / store, "--at", entry).split()
    checks.check(f"{store}, {what}: a backup is restored to the digest of entry {entry}",
                 known == [entry, digest], f"{known} {told}")
    return target


def of_running(site, checks):
    for store in STORES:
        restored(site, checks, store, "while it runs")


def put_back(site, checks, sets, servers):
    """Puts a restored store in the place of each one, whose process was killed."""
    for store in STORES:
        new = restored(site, checks, store, "killed")
        if store == "control":
            other = site.new_key("other")
            held = sets(site, new.relative_to(site.folder), other)
            checks.check("another key opens nothing of a backup",
                         held.get("missing") == len(servers) and not held["current"], held)
            held = sets(site, new.relative_to(site.folder))
            checks.check("with the key a backup gives everything back", held == {"current": len(servers)}, held)
        old = site.folder / store
        old.rename(site.folder / "backups" / f"{store} before")
        new.rename(old)
