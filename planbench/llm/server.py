"""A scripted model server on this machine, for tests that should use a real client.

with ScriptedServer([text('{"nodes": []}'), failure(429, retry_after=1)]) as server:
    client = OpenAIClient("any", base_url=server.url, api_key="test")
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.llm.client import ModelReply
from planbench.llm.fake import text

if TYPE_CHECKING:
    from types import TracebackType

_PIECE: Final = 7
_NO_ANSWER: Final = 400


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer of the server; ``slow``, ``failure``, ``raw`` and ``disconnect`` make them.

    ``cut`` closes the connection after that many bytes of the body.
    """

    body: ModelReply | dict[str, Any] | str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came; ``headers`` have lower-case names, and are left out of the repr."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)


Answer = Scripted | ModelReply | str
Script = Iterable[Answer] | Callable[[Received], Answer]


def failure(
    status: int,
    message: str = "scripted failure",
    *,
    retry_after: float | None = None,
    code: str | None = None,
    param: str | None = None,
) -> Scripted:
    """Answer with an error as OpenAI words it."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    error = {"message": message, "type": "scripted", "code": code, "param": param}
    return Scripted({"error": error}, status, headers)


def slow(answer: Answer, seconds: float) -> Scripted:
    """Answer after a while; a server that is closed does not wait for it."""
    return replace(_scripted(answer), delay=seconds)


def disconnect(answer: Answer = "", *, after: int = 0) -> Scripted:
    """Close the connection after so many bytes of the answer's body, at once by default."""
    return replace(_scripted(answer), cut=after)


def raw(body: str, *, content_type: str = "application/json", status: int = 200) -> Scripted:
    """Answer with a text as it stands."""
    return Scripted(body, status, {"content-type": content_type})


class ScriptedServer:
    """Serves chat completions from a script on a port of the loopback interface.

    ``script`` is a list of answers, used in their order, or a function of the request.
    An answer is ``text(...)``, ``tool_call(...)``, a str, or one of this module's. A
    request beyond the script is answered with status 400. ``requests`` holds all that
    came. A request that asks for a stream gets one.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[Received] = []
        self._answer = script if callable(script) else None
        self._left = iter(()) if callable(script) else iter(list(script))
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="scripted-server", daemon=True
        )

    @property
    def url(self) -> str:
        """The ``base_url`` for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of the requests, oldest first."""
        return [request.body for request in self.requests]

    def start(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End the server and every answer that still waits."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def answer_to(self, request: Received) -> Scripted:
        """Take a request down and give its answer, after its delay."""
        with self._lock:
            self.requests.append(request)
            answer = self._next(request)
        if answer.delay:
            self._closing.wait(answer.delay)
        return answer

    def _next(self, request: Received) -> Scripted:
        if self._answer is None:
            over = f"the script has no answer for request {len(self.requests)}"
            return _scripted(next(self._left, failure(_NO_ANSWER, over)))
        try:
            return _scripted(self._answer(request))
        except Exception as error:  # noqa: BLE001 - the script is the user's: the client is told
            return failure(_NO_ANSWER, f"the script raised {type(error).__name__}: {error}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections beyond it are reset; the default of 5 is soon reached
    owner: ScriptedServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.owner.answer_to(Received(self.path, body, headers))
        with contextlib.suppress(ConnectionError):
            if body.get("stream") and isinstance(answer.body, ModelReply):
                self._stream(answer, answer.body, body)
            else:
                self._send(answer, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is that of the base class
        """Print nothing: the requests are on record."""

    def _send(self, answer: Scripted, asked: dict[str, Any]) -> None:
        content = answer.body
        if isinstance(content, ModelReply):
            content = completion(content, asked)
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        if answer.cut == 0:
            self.close_connection = True
            return
        self._head(answer, {"content-type": "application/json", "content-length": str(len(data))})
        self._write(data, answer.cut)

    def _stream(self, answer: Scripted, reply: ModelReply, asked: dict[str, Any]) -> None:
        if answer.cut == 0:
            self.close_connection = True
            return
        self._head(answer, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        left = answer.cut
        for piece in [*map(json.dumps, pieces(reply, asked)), "[DONE]"]:
            data = f"data: {piece}\n\n".encode()
            if left is not None and len(data) >= left:
                self.wfile.write(b"%x\r\n%s" % (len(data), data[:left]))
                self.close_connection = True
                return
            left = None if left is None else left - len(data)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, answer: Scripted, headers: dict[str, str]) -> None:
        self.send_response(answer.status)
        for name, value in {**headers, **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _write(self, data: bytes, cut: int | None) -> None:
        self.wfile.write(data if cut is None else data[:cut])
        self.close_connection = self.close_connection or cut is not None


def completion(reply: ModelReply, asked: dict[str, Any]) -> dict[str, Any]:
    """Write a reply as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = _calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**_frame(reply, asked, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def pieces(reply: ModelReply, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Write a reply as the pieces of a stream, a few characters each."""
    frame = _frame(reply, asked, "chat.completion.chunk")

    def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield piece({"role": "assistant", "content": ""})
    for start in range(0, len(reply.content), _PIECE):
        yield piece({"content": reply.content[start : start + _PIECE]})
    if reply.refusal is not None:
        yield piece({"refusal": reply.refusal})
    for i, call in enumerate(_calls(reply)):
        arguments = call["function"]["arguments"]
        head = {**call, "index": i, "function": {**call["function"], "arguments": ""}}
        yield piece({"tool_calls": [head]})
        for begin in range(0, len(arguments), _PIECE):
            part = {"index": i, "function": {"arguments": arguments[begin : begin + _PIECE]}}
            yield piece({"tool_calls": [part]})
    yield piece({}, reply.finish_reason)
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": _usage(reply)}


def _scripted(answer: Answer) -> Scripted:
    if isinstance(answer, Scripted):
        return answer
    return Scripted(text(answer) if isinstance(answer, str) else answer)


def _frame(reply: ModelReply, asked: dict[str, Any], kind: str) -> dict[str, Any]:
    model = reply.model or asked.get("model")
    return {"id": "scripted", "object": kind, "created": 0, "model": model}


def _usage(reply: ModelReply) -> dict[str, Any] | None:
    usage = reply.usage
    if not usage.reported:
        return None
    total = usage.input_tokens + usage.output_tokens
    written = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": total,
    }
    return written if usage.cost is None else {**written, "cost": usage.cost}


def _calls(reply: ModelReply) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in reply.tool_calls
    ]
