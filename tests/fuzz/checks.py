"""What every answer has to be, whatever was asked."""

import json
import re
from typing import Any
from urllib.parse import parse_qsl

from request import Request
from wire import Response

SLOWEST_S = 1.0
JSON_TYPE = "application/json"
PAGE_TYPES = ("text/html", "text/plain")
PLAIN_VERSION = re.compile(r"1\.\d{1,2}\Z")


def problem_with(request: Request, response: Response) -> str:
    """The first thing that is wrong with an answer, or nothing."""
    status = response.status
    if status >= 500:
        return f"status {status}: {response.body[:300]!r}"
    if response.seconds > SLOWEST_S:
        return f"{response.seconds:.2f} s"
    if status < 200 or 300 <= status < 400:
        return f"status {status}"
    kind = (response.get("content-type") or "").partition(";")[0]
    if not response.body:
        return "" if status < 300 or request.method == "HEAD" else _empty(response)
    if kind != JSON_TYPE:
        if status >= 400 and kind in PAGE_TYPES and _asks_for_page(request, status):
            return ""
        return f"status {status} with content-type {kind!r}: {response.body[:200]!r}"
    try:
        body = json.loads(response.body)
    except ValueError as error:
        return f"not JSON: {error}: {response.body[:200]!r}"
    if status >= 400:
        return _error_problem(response, body)
    return _version_problem(request, response) or _body_problem(request, body)


def _empty(response: Response) -> str:
    return f"status {response.status} without a body"


def _asks_for_page(request: Request, status: int) -> bool:
    """Errors are pages for those who ask for one."""
    accept = request.headers.get("Accept")
    return accept is not None and accept != JSON_TYPE or request.method == "HEAD"


def _error_problem(response: Response, body: Any) -> str:
    status = response.status
    if status == 401:
        known = isinstance(body, dict) and {"message", "code", "title"} <= set(body)
        return "" if known else f"401 of another shape: {body}"
    try:
        (error,) = body["errors"]
        wrong = error["status"] != status or not isinstance(error["title"], str)
        wrong = wrong or not isinstance(error["detail"], str)
    except (KeyError, TypeError, ValueError):
        return f"error of another shape: {body}"
    given = response.get("x-openstack-request-id")
    if wrong:
        return f"error that contradicts status {status}: {error}"
    if given is None:
        return "no x-openstack-request-id"
    if error.get("request_id", given) != given:
        return f"request id {given} and {error['request_id']}"
    if status == 406 and "Acceptable" in error["title"] and "max_version" in error:
        if error["max_version"] != "1.39" or error["min_version"] != "1.0":
            return f"versions of 406: {error}"
    return ""


def _version_problem(request: Request, response: Response) -> str:
    """The answer says which microversion it speaks: the one asked for."""
    if request.version is None or not PLAIN_VERSION.match(request.version):
        return ""
    if "OpenStack-API-Version" in request.headers or request.path == "/":
        return ""
    spoken = response.get("openstack-api-version")
    if spoken != f"placement {request.version}":
        return f"asked for {request.version}, answered in {spoken!r}"
    if "openstack-api-version" not in (response.get("vary") or "").lower():
        return f"vary is {response.get('vary')!r}"
    return ""


def _body_problem(request: Request, body: Any) -> str:
    path, _, query = request.path.partition("?")
    if path != "/allocation_candidates":
        return ""
    limits = [value for name, value in parse_qsl(query) if name == "limit"]
    entries = body["allocation_requests"]
    if len(limits) == 1 and len(entries) > int(limits[0]):
        return f"{len(entries)} candidates with limit {limits[0]}"
    for entry in entries:
        allocations = entry["allocations"]
        if isinstance(allocations, list):
            used = {a["resource_provider"]["uuid"] for a in allocations}
        else:
            used = set(allocations)
        missing = used - set(body["provider_summaries"])
        if missing:
            return f"no summary of {missing}"
    return ""
