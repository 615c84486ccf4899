"""Requests to the services of an installation with one token."""

import http.client
import json
import time

PLACEMENT = {"OpenStack-API-Version": "placement 1.39"}
COMPUTE = {"OpenStack-API-Version": "compute 2.96"}


# How often and how long it waits for a service that is busy.
BUSY_MAX, BUSY_S = 10, 1


class Caller:
    """One token, and a connection to each service. For one thread."""

    def __init__(self, site, token: str) -> None:
        self.site, self.token, self.connections = site, token, {}

    def patiently(self, service: str, method: str, path: str, body=None):
        """As a call, but again while the service is busy, as the page does."""
        for _ in range(BUSY_MAX):
            status, answer = self(service, method, path, body)
            if status != 503:
                break
            time.sleep(BUSY_S)
        return status, answer

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
