"""Files that change while the program runs."""

import http.client
import ssl
import threading
import time

from authority import Identity
from site_tls import LOOK_MS, NAMES, Control, Link, Site, trusting

RENEWALS = 10
CLIENTS = 8


class Load:
    """Clients that send requests all the time: half on kept connections, half on a new one for each request."""

    def __init__(self, site: Site, control: Control) -> None:
        self.over = threading.Event()
        self.failures: list[str] = []
        self.count = 0
        context = trusting(site.ca)
        self.threads = [
            threading.Thread(target=self.work, args=(control.port, context, number % 2 == 0))
            for number in range(CLIENTS)
        ]

    def work(self, port: int, context: ssl.SSLContext, is_kept: bool) -> None:
        link = Link(port, context)
        while not self.over.is_set():
            try:
                status = link.ask().status
                if status != 200:
                    self.failures.append(f"status {status}")
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                link.close()
            self.count += 1
            if not is_kept:
                link.close()

    def __enter__(self) -> "Load":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def wait_until_shown(site: Site, control: Control, identity: Identity) -> bool:
    """Waits until new connections get this certificate, for 20 s at most; gives whether they do."""
    wanted = identity.certificate.read_text()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        link = Link(control.port, trusting(site.ca))
        link.http.connect()
        assert isinstance(link.http.sock, ssl.SSLSocket)
        shown = ssl.DER_cert_to_PEM_cert(link.http.sock.getpeercert(True) or b"")
        link.close()
        if shown.split() == wanted.split():
            return True
        time.sleep(LOOK_MS / 1000)
    return False


def reload(site: Site) -> None:
    """Certificates are renewed under load without a failed request"""
    with site.control() as control, Load(site, control) as load:
        for number in range(RENEWALS):
            renewed = site.ca.issue(f"renewed-{number}", NAMES, kind="rsa" if number % 5 == 4 else "ec")
            renewed.put(site.certificate, site.key)
            if number % 2:
                control.hang_up()
            if not site.check(f"certificate {number} is shown", wait_until_shown(site, control, renewed), control.log()[-1500:]):
                break
        expired = site.ca.issue("over", NAMES, begins=-200_000, ends=-100_000)
        for name, wrong in (
            ("no PEM", lambda: site.certificate.write_text("no PEM")),
            ("no file", site.key.unlink),
            ("another key", lambda: site.other.issue("else", NAMES).put(site.certificate, site.folder / "unused")),
            ("an expired one", lambda: expired.put(site.certificate, site.key)),
        ):
            renewed.put(site.certificate, site.key)
            wait_until_shown(site, control, renewed)
            time.sleep(4 * LOOK_MS / 1000)
            before = control.metrics("tls_reloads_total").get('{listener="placement",outcome="kept"}', 0)
            wrong()
            deadline = time.monotonic() + 20
            while (
                control.metrics("tls_reloads_total").get('{listener="placement",outcome="kept"}', 0) <= before
                and time.monotonic() < deadline
            ):
                time.sleep(LOOK_MS / 1000)
            kept = control.metrics("tls_reloads_total").get('{listener="placement",outcome="kept"}', 0)
            site.check(f"{name}: counted", kept > before)
            site.check(f"{name}: the one before stays", wait_until_shown(site, control, renewed))
        log = control.log()
        site.check("the log names the file and what is wrong", f"{site.certificate}: it holds no certificates" in log and "what was in force before stays" in log, log[-2000:])
    site.check("no request failed", not load.failures, load.failures[:5])
    print(f"        {load.count} requests by {CLIENTS} clients meanwhile")


CHECKS = {"reload": reload}
