#!/usr/bin/env python3
"""The part of Keystone v3 that is needed to check tokens, for tests.

Tokens that begin with "good-" are valid; all others are not. Each question, which is a request to check a
token, takes some time, as with a real Keystone. ``GET /questions`` says how many there were. It is a program,
so that the work of a test's own process does not slow it down: ``keystone.py PORT [MILLISECONDS]``.
"""

import asyncio
import json
import sys

questions = 0


def token(name: str) -> dict:
    return {
        "token": {
            "methods": ["password"],
            "user": {"id": name, "name": name, "domain": {"id": "default"}},
            "project": {"id": f"project-of-{name}", "domain": {"id": "default"}},
            "roles": [{"id": "r1", "name": "admin"}, {"id": "r2", "name": "member"}],
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
        }
    }


def answer(method: str, path: str, headers: dict[str, str]) -> tuple[str, dict]:
    global questions
    if path == "/questions":
        return "200 OK", {"questions": questions}
    if method == "POST":
        return "201 Created", token("placement")
    questions += 1
    name = headers.get("x-subject-token", "")
    if name.startswith("good-"):
        return "200 OK", token(name)
    return "404 Not Found", {"error": {"code": 404}}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pause: float) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            pairs = (line.split(":", 1) for line in head[1:] if ":" in line)
            headers = {name.strip().lower(): value.strip() for name, value in pairs}
            await reader.readexactly(int(headers.get("content-length", 0)))
            if path != "/questions":
                await asyncio.sleep(pause)
            status, body = answer(method, path, headers)
            content = json.dumps(body).encode()
            own = "X-Subject-Token: own\r\n" if method == "POST" else ""
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{own}"
                f"Content-Length: {len(content)}\r\n\r\n".encode()
                + content
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    port = int(sys.argv[1])
    pause = (int(sys.argv[2]) if len(sys.argv) > 2 else 20) / 1000
    server = await asyncio.start_server(lambda r, w: serve(r, w, pause), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
