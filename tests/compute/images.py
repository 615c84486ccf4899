"""A tiny image service for clients that want to see an image before they name it.

Placewright carries images along as references and imitates no image service; the
client asks one all the same.  It knows every image whose id is a UUID, and one by
its name.  At /v3 it says that it is an identity service of version 3, because the
client looks for such a service before it does anything with flavors and keys.
"""

import http.server
import json
import threading
import urllib.parse
import uuid

IMAGE = "70ace000-0000-4000-8000-000000000001"
NAME = "cirros"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what clients ask of images."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing."""

    def image(self, ident: str) -> dict:
        return {
            "id": ident,
            "name": NAME,
            "status": "active",
            "visibility": "public",
            "disk_format": "qcow2",
            "container_format": "bare",
            "min_disk": 0,
            "min_ram": 0,
            "size": 1,
            "tags": [],
        }

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        parts = [part for part in url.path.split("/") if part]
        query = urllib.parse.parse_qs(url.query)
        status, body = 404, {}
        if parts in ([], ["v2"]):
            link = f"http://{self.headers['Host']}/v2/"
            version = {"id": "v2.9", "status": "CURRENT", "links": [{"rel": "self", "href": link}]}
            status, body = 200, {"versions": [version]}
        elif parts == ["v3"]:
            link = f"http://{self.headers['Host']}/v3/"
            links = [{"rel": "self", "href": link}]
            status, body = 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}
        elif parts == ["v2", "images"]:
            found = query.get("name", [NAME]) == [NAME]
            status, body = 200, {"images": [self.image(IMAGE)] if found else []}
        elif parts[:2] == ["v2", "images"] and len(parts) == 3 and is_uuid(parts[2]):
            status, body = 200, self.image(parts[2])
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def start() -> int:
    """Serves in the background; the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]
