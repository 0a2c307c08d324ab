"""The web server of the page: routes and headers; what is said is decided elsewhere.

GET  /                          the page, and its files under /static/
GET  /api/runs                  which runs are served, and what was asked of them
GET  /api/runs/N/graph          agents in the plane, and edges
GET  /api/runs/N/story          the run told again, moment by moment
GET  /api/runs/N/charts         its charts
GET  /api/runs/N/agents/A       one agent, closely
GET  /api/runs/N/stream         server-sent events: what changed
GET  /api/compare               curves of all runs on one axis, and in what they differ
POST /api/runs/N/chaos          do something to it, with the token
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import web

from agentd.charts.comparing import compared, differing_settings, labels_of
from agentd.dashboard.event_stream import EventStream
from agentd.dashboard.served_run import ServedRun
from agentd.dashboard.static_files import StaticFile, static_files
from agentd.dashboard.surroundings import Action
from agentd.dashboard.tamed import tamed
from agentd.dashboard.web_guard import HEADERS, Guard
from agentd.errors import AgentdError
from agentd.runs.directory import finite
from agentd.untrusted import decode_json, printable

MOST_READERS = 32
"""Streams that are open at once."""
LONGEST_REQUEST = 1 << 20
_SEND_S = 10.0
"""How long a reader may take for what it was sent."""
_THREADS = 2
_SHUTDOWN_S = 0.5

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Made = TypeVar("Made")


class PageServer:
    """Serves the page of some runs."""

    def __init__(self, runs: Sequence[ServedRun], guard: Guard) -> None:
        self._runs = runs
        self._guard = guard
        self._files = static_files()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="run")
        self._streams = [EventStream(self._looker(run)) for run in runs]

    def application(self) -> web.Application:
        """The routes, behind the guard."""
        app = web.Application(middlewares=[self._guarded], client_max_size=LONGEST_REQUEST)
        run = r"/api/runs/{run:\d{1,3}}"
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/api/runs", self._about)
        app.router.add_get("/api/compare", self._compare)
        app.router.add_get(f"{run}/graph", self._graph)
        app.router.add_get(f"{run}/story", self._story)
        app.router.add_get(f"{run}/charts", self._charts)
        app.router.add_get(f"{run}/agents/{{agent:\\d{{1,5}}}}", self._agent)
        app.router.add_get(f"{run}/stream", self._stream)
        app.router.add_post(f"{run}/chaos", self._chaos)
        app.on_response_prepare.append(_add_headers)
        return app

    async def serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        """Serve on a socket that listens, until it is told to stop."""
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            await stop.wait()
        finally:
            await runner.cleanup()
            self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (refusal := self._guard.refusal(request.method, request.headers)) is not None:
            return _json({"error": refusal[1]}, refusal[0])
        try:
            return await handler(request)
        except web.HTTPException as fault:
            return _json({"error": fault.reason}, fault.status)
        except AgentdError as fault:
            return _json({"error": printable(str(fault))}, 409)

    async def _page(self, request: web.Request) -> web.Response:
        return _file(self._files["index.html"], request)

    async def _static(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound
        return _file(file, request)

    async def _about(self, request: web.Request) -> web.Response:
        runs = [await self._in_thread(run.about) for run in self._runs]
        return _json({"runs": runs, "chaos": self._guard.token is not None}, request=request)

    async def _graph(self, request: web.Request) -> web.Response:
        graph = await self._in_thread(self._run(request).graph)
        places = [[round(x, 3), round(y, 3)] for x, y in graph.places]
        return _json({"places": places, "edges": graph.edges}, request=request)

    async def _story(self, request: web.Request) -> web.Response:
        return _json({"moments": await self._in_thread(self._run(request).story)}, request=request)

    async def _charts(self, request: web.Request) -> web.Response:
        return _json({"charts": await self._in_thread(self._run(request).charts)}, request=request)

    async def _compare(self, request: web.Request) -> web.Response:
        return _json(await self._in_thread(self._compared), request=request)

    async def _agent(self, request: web.Request) -> web.Response:
        run, agent = self._run(request), int(request.match_info["agent"])
        try:
            return _json(await self._in_thread(lambda: run.close_up(agent)), request=request)
        except KeyError:
            raise web.HTTPNotFound(reason=f"there is no agent {agent}") from None

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        run = self._run(request)
        if sum(stream.readers for stream in self._streams) >= MOST_READERS:
            raise web.HTTPServiceUnavailable(reason="too many pages are open")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        try:
            async for told in self._streams[run.number].read():
                text = ": still here\n\n" if told is None else f"event: look\ndata: {_text(told)}\n\n"
                await asyncio.wait_for(response.write(text.encode()), _SEND_S)
            await asyncio.wait_for(response.write(b"event: over\ndata: {}\n\n"), _SEND_S)
        except (ConnectionError, TimeoutError):
            pass  # it went away, or does not read
        return response

    async def _chaos(self, request: web.Request) -> web.Response:
        run = self._run(request)
        try:
            action = Action.parse(decode_json(await request.read()))
        except ValueError as fault:
            return _json({"error": printable(str(fault))}, 400)
        done = await self._in_thread(lambda: run.surroundings.act(action))
        self._streams[run.number].hurry()
        return _json({"done": [tamed(record) for record in done]})

    def _compared(self) -> dict[str, Any]:
        facts = [run.facts() for run in self._runs]
        return {
            "names": labels_of(facts),
            "charts": [chart.as_json() for chart in compared(facts)],
            "rows": [{"name": name, "values": values} for name, values in differing_settings(facts)],
        }

    def _run(self, request: web.Request) -> ServedRun:
        number = int(request.match_info["run"])
        if number >= len(self._runs):
            raise web.HTTPNotFound(reason="there is no such run")
        return self._runs[number]

    def _looker(self, run: ServedRun) -> Callable[[], Awaitable[dict[str, Any]]]:
        return lambda: self._in_thread(run.look)

    async def _in_thread(self, make: Callable[[], Made]) -> Made:
        return await asyncio.get_running_loop().run_in_executor(self._threads, make)


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers["Server"] = "agentd"


def _text(value: Any) -> str:
    return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"))


def _json(value: Any, status: int = 200, request: web.Request | None = None) -> web.Response:
    response = web.Response(
        text=_text(value), status=status, content_type="application/json", headers={"Cache-Control": "no-store"}
    )
    if request is not None:
        response.enable_compression()
    return response


def _file(file: StaticFile, request: web.Request) -> web.Response:
    headers = {"Content-Type": file.kind, "ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("If-None-Match") == file.etag:
        return web.Response(status=304, headers=headers)
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=file.packed, headers=headers | {"Content-Encoding": "gzip"})
    return web.Response(body=file.content, headers=headers)
