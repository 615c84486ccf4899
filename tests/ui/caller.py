"""Requests to the services of an installation with one token."""

import http.client
import json

PLACEMENT = {"OpenStack-API-Version": "placement 1.39"}
COMPUTE = {"OpenStack-API-Version": "compute 2.96"}


class Caller:
    """One token, and a connection to each service. For one thread."""

    def __init__(self, site, token: str) -> None:
        self.site, self.token, self.connections = site, token, {}

    def __call__(self, service: str, method: str, path: str, body=None):
        headers = {"X-Auth-Token": self.token, "Content-Type": "application/json"}
        headers |= {"placement": PLACEMENT, "compute": COMPUTE}.get(service, {})
        data = None if body is None else json.dumps(body)
        for attempt in (0, 1):
            connection = self.connections.get(service)
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self.site.ports[service], timeout=60)
                self.connections[service] = connection
            try:
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                content = answer.read()
                break
            except (http.client.HTTPException, OSError):
                # The service closes what was idle for long.
                del self.connections[service]
                if attempt:
                    raise
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content.decode(errors="replace")

    def get(self, service: str, path: str):
        status, answer = self(service, "GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {answer}")
        return answer
