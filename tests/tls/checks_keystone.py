"""Keystone behind TLS, with an authority of its own."""

import http.server
import json
import ssl
import threading
import time
import urllib.error
import urllib.request

from ports import free_port
from site_tls import LOOK_MS, NAMES, Site

EXPIRES = "2099-01-01T00:00:00.000000Z"


class Handler(http.server.BaseHTTPRequestHandler):
    """The part of Keystone v3 that is needed to check tokens."""

    def answer(self, status: int) -> None:
        token = {
            "expires_at": EXPIRES,
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "methods": ["password"],
            "user": {"id": "u", "name": "alice", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p", "name": "good", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "a", "name": "admin"}, {"id": "m", "name": "member"}],
        }
        body = json.dumps({"token": token}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Subject-Token", "service")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(201)

    def do_GET(self) -> None:
        self.answer(200)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext

    def handle_error(self, *_: object) -> None:
        pass

    def finish_request(self, request, address) -> None:  # noqa: ANN001
        self.RequestHandlerClass(self.context.wrap_socket(request, server_side=True), address, self)


def keystone(site: Site) -> None:
    """Keystone with an authority of its own, which changes without a restart"""
    port = free_port()
    server = Server(("127.0.0.1", port), Handler)
    contexts = {}
    for name, ca in (("ca", site.ca), ("other", site.other)):
        identity = ca.issue("keystone", NAMES)
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[name].load_cert_chain(identity.certificate, identity.key)
    server.context = contexts["ca"]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = site.folder / "keystone-ca.pem"
    bundle.write_text(site.ca.pem.read_text())
    options = (
        *("--auth-strategy", "keystone", "--keystone-auth-url", f"https://localhost:{port}"),
        *("--keystone-cafile", str(bundle), "--keystone-username", "placement"),
        *("--keystone-password-file", str(site.folder / "password")),
    )
    (site.folder / "password").write_text("sesame")
    (site.folder / "password").chmod(0o600)
    with site.control(*options) as control:
        number = 0

        def status() -> int:
            nonlocal number
            number += 1
            request = urllib.request.Request(
                f"http://127.0.0.1:{control.port}/resource_providers", headers={"X-Auth-Token": f"token-{number}"}
            )
            try:
                return urllib.request.urlopen(request, timeout=20).status
            except urllib.error.HTTPError as error:
                return error.code

        def wait_for_status(wanted: int) -> int:
            """Asks again until the status is the wanted one, for 20 s at most; gives the last status."""
            deadline = time.monotonic() + 20
            while (got := status()) != wanted and time.monotonic() < deadline:
                time.sleep(LOOK_MS / 1000)
            return got

        got = status()
        site.check("a token is checked over TLS", got == 200, got)
        server.context = contexts["other"]
        got = wait_for_status(503)
        site.check("not if another authority signed Keystone's certificate", got == 503, got)
        bundle.write_text("no PEM")
        time.sleep(5 * LOOK_MS / 1000)
        log = control.log()
        site.check("a wrong bundle is a line of the log that names it", f"{bundle}: it holds no certificates" in log, log[-2000:])
        bundle.write_text(site.other.pem.read_text())
        got = wait_for_status(200)
        site.check("until the bundle has that authority", got == 200, control.log()[-2000:])
        site.check("which the log says", "read the authorities of Keystone's certificate again" in control.log())
    server.shutdown()


CHECKS = {"keystone": keystone}
