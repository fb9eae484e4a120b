"""A REST catalog of one project's tables that answers every request after a delay, as a distant one would.

Runs as `python -m tests.bench.rest_stub <project> <seconds>` and prints its uri; ends when its stdin closes. It knows
configuration, namespaces and loading tables, with ETags; nothing can be changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

Answer = tuple[str, bytes, str]
_CONFIG: Answer = ("200 OK", b'{"defaults":{},"overrides":{}}', "")
_NOT_FOUND: Answer = ("404 Not Found", b'{"error":{"type":"NoSuchTableException","code":404,"message":"no"}}', "")


def load(folder: Path) -> dict[str, Answer]:
    """Read every table's metadata once, as the answers to give."""
    answers = {"/v1/config": _CONFIG}
    with sqlite3.connect(folder / ".laketable/catalog.db") as connection:
        query = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
        for namespace, name, location in connection.execute(query):
            metadata = Path(location.removeprefix("file://")).read_bytes()
            body = b'{"metadata-location":"%s","metadata":%s,"config":{}}' % (location.encode(), metadata)
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            answers[f"/v1/namespaces/{namespace}/tables/{name}"] = ("200 OK", body, etag)
    return answers


class Stub:
    """Answers requests on kept-alive connections."""

    def __init__(self, answers: dict[str, Answer], seconds: float) -> None:
        self._answers = answers
        self._seconds = seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests, each after the delay."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await asyncio.sleep(self._seconds)
                writer.write(self._answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        status, body, etag = self._answers.get(unquote(urlsplit(request.split(" ")[1]).path), _NOT_FOUND)
        if etag and headers.get("if-none-match") == etag:
            status, body = "304 Not Modified", b""
        tag = f"ETag: {etag}\r\n" if etag else ""
        fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{tag}"
        return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + body


async def main(folder: Path, seconds: float) -> None:
    """Serve until nobody holds our stdin open."""
    server = await asyncio.start_server(Stub(load(folder), seconds).serve, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
