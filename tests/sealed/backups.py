"""Stores with sealed secrets are backed up and put back; no key is in a backup."""

import re
import subprocess

STORES = ("control", "cell-0", "cell-1")


def journal(site, *words) -> str:
    done = subprocess.run([site.program, "journal", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"journal {words}: {done.stderr}")
    return done.stdout


def back_up_and_restore(site, checks, store, what):
    """Makes a store from a backup of another one, and compares the digests; returns the new store's path."""
    target = site.folder / "backups" / f"{store} {what}"
    target.parent.mkdir(exist_ok=True)
    file = target.with_suffix(".backup")
    journal(site, "backup", site.folder / store, file)
    output = journal(site, "restore", file, target)
    entry, digest = re.search(r"restored to entry (\d+).*, digest ([0-9a-f]+)", output).groups()
    known = journal(site, "digest", "--store", site.folder / store, "--at", entry).split()
    checks.check(f"{store}, {what}: a backup is restored to the digest of entry {entry}",
                 known == [entry, digest], f"{known} {output}")
    return target


def check_running(site, checks):
    for store in STORES:
        back_up_and_restore(site, checks, store, "while it runs")


def put_back(site, checks, sets, servers):
    """Replaces the store of each role, whose process was killed, by a restored one."""
    for store in STORES:
        new = back_up_and_restore(site, checks, store, "killed")
        if store == "control":
            other_key = site.new_key("other")
            held = sets(site, new.relative_to(site.folder), other_key)
            checks.check("another key opens nothing of a backup",
                         held.get("missing") == len(servers) and not held["current"], held)
            held = sets(site, new.relative_to(site.folder))
            checks.check("with the key a backup gives everything back", held == {"current": len(servers)}, held)
        old = site.folder / store
        old.rename(site.folder / "backups" / f"{store} before")
        new.rename(old)
