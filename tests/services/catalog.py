"""Just enough of Keystone v3 for the services to sign in and to find placement: one token, one endpoint.

Both servers under test take the token `admin` (noauth2), so that what is compared is placement alone.
"""

import http.server
import json
import threading

INTERFACES = ("public", "internal", "admin")
REGION = "RegionOne"


class Catalog:
    """A listener whose catalog has one service, placement at `placement_url`."""

    def __init__(self, placement_url: str) -> None:
        document = json.dumps(_token(placement_url)).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                address = f"http://127.0.0.1:{self.server.server_port}/v3/"
                version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": address}]}
                version["media-types"] = []
                self._answer(200, json.dumps({"version": version}).encode())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer(201, document)

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("X-Subject-Token", "admin")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Is silent."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _token(placement_url: str) -> dict:
    endpoints = [
        {"id": name, "interface": name, "region": REGION, "region_id": REGION, "url": placement_url}
        for name in INTERFACES
    ]
    domain = {"id": "default", "name": "Default"}
    return {
        "token": {
            "methods": ["password"],
            "user": {"id": "admin", "name": "admin", "domain": domain},
            "project": {"id": "admin", "name": "admin", "domain": domain},
            "roles": [{"id": "admin", "name": "admin"}],
            "catalog": [{"id": "p", "type": "placement", "name": "placement", "endpoints": endpoints}],
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
        }
    }
