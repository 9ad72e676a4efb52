"""Models behind any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

from pydantic import SecretStr

from planbench.errors import ConfigurationError, ModelError
from planbench.llm.client import CONTENT_FILTER, ModelReply
from planbench.llm.endpoints import (
    NO_KEY,
    OPENAI,
    address_of,
    header_of,
    key_for,
    provider_of,
)
from planbench.llm.failures import Failures, transport_errors
from planbench.llm.wire import Manner, Pieces, body_of, reply_of
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from planbench.llm.client import ModelRequest

_TRIES: Final = 5
_CONNECT: Final = 10.0
_REFUSED: Final = 400
# what the package sends to every address when the environment holds it
_AMBIENT_HEADERS: Final = ("OpenAI-Organization", "OpenAI-Project")
_MORE_HEADERS: Final = "OPENAI_CUSTOM_HEADERS"
_FILTERED: Final = "content_filter"


@dataclass(slots=True)
class _Connection:
    """The package's client for one event loop; its sockets belong to that loop."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sdk: Any = None


class OpenAIClient:
    """Asks one model over the ``openai`` package (extra ``openai``).

    ``base_url`` is the address; without it OPENAI_BASE_URL, then OpenAI's own. A key of
    the environment is sent to its own provider only: with a ``base_url`` of another
    place give ``api_key``, or ``api_key=""`` for a server that wants none. ``provider``
    takes address and key variable from the table of ``client_of``.

    ``timeout`` is in seconds, for each try and for each pause in a stream. Answers 408,
    409, 429 and 5xx and broken connections are tried again up to ``max_retries`` times,
    after the wait that the server asks for; a wait beyond what the package honours (two minutes) is not sat out
    and is told as ``retry_after``. Further ``options`` are sent as
    fields of every request: ``OpenAIClient("m", temperature=0, reasoning_effort="low")``.

    An endpoint that refuses a schema is asked in JSON mode, then in plain words, and
    that is remembered. Raises ConfigurationError without the package or a key. Use it
    in one process; ``close`` it, or use it as an async context manager.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        provider: str = OPENAI,
        timeout: float = 300.0,
        max_retries: int = 2,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        if not model:
            raise ConfigurationError(
                "a client asks a model, and there is no default one",
                hint='write: OpenAIClient("name-of-the-model")',
            )
        if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
            raise ConfigurationError(f"timeout is seconds above 0, not {shown(timeout)}")
        if type(max_retries) is not int or max_retries < 0:
            raise ConfigurationError(f"max_retries is a number from 0 on, not {shown(max_retries)}")
        self.model = model
        served_by = provider_of(provider)
        self.provider = served_by.name
        self.reports_cost = served_by.reports_cost
        self._address = address_of(served_by, base_url)
        self._key = SecretStr(key_for(served_by, base_url, api_key, self._address))
        if importlib.util.find_spec("openai") is None:
            raise ConfigurationError(
                "the package 'openai' is not installed",
                hint='install it: pip install "planbench[openai]"',
            )
        # where the environment says that OpenAI is, the rest of what it says of OpenAI goes too
        self._is_openai = served_by.name == OPENAI and (self._address.is_own or not base_url)
        self._timeout = timeout
        self._max_retries = max_retries
        self._headers = {
            name: SecretStr(header_of(name, value)) for name, value in (headers or {}).items()
        }
        self._options = options
        field_name = served_by.max_tokens_field if self._address.is_own else "max_tokens"
        self._manner = Manner(max_tokens_field=field_name)
        self._manners: dict[str, Manner] = {}
        self._variables = () if base_url or api_key else served_by.keys
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection]
        self._connections = WeakKeyDictionary()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Give the model's answer, whatever its finish reason; raises ModelError for none."""
        sdk = await self._connected()
        name = request.model or self.model
        manner = self._manners.get(name, self._manner)
        failures = self._failures(name)
        first: ModelError | None = None
        for _ in range(_TRIES):
            body = body_of(request, name, manner, self._options)
            answer = await self._answer(sdk, body, request, failures)
            if isinstance(answer, ModelReply):
                self._manners[name] = manner
                return answer
            first = first or answer
            following = manner.after(answer, body)
            if following is None:
                break
            manner = following
        raise first or failures.no_completion()

    async def close(self) -> None:
        """Close the connections of this event loop."""
        known = self._connections.pop(asyncio.get_running_loop(), None)
        if known is not None and known.sdk is not None:
            await known.sdk.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<OpenAIClient {self.model!r} at {self._address.host}>"

    # -- one try -----------------------------------------------------------------------

    async def _answer(
        self, sdk: Any, body: dict[str, Any], request: ModelRequest, failures: Failures
    ) -> ModelReply | ModelError:
        """Give the answer, or the error, which is raised far from what holds the key."""
        pieces = Pieces()
        try:
            async with contextlib.aclosing(_data(sdk, body, failures)) as parts:
                async for data in parts:
                    if not body.get("stream"):
                        return reply_of(data)
                    text = pieces.add(data)
                    if text and request.on_text is not None:
                        said = request.on_text(text)
                        if inspect.isawaitable(said):
                            await said
        except ModelError as error:
            if error.detail == _FILTERED:
                return ModelReply(finish_reason=CONTENT_FILTER, model=body["model"])
            return error
        return pieces.reply() if pieces.is_finished else failures.broke_off()

    def _failures(self, model: str) -> Failures:
        secrets = [self._key, *self._headers.values()]
        written = (secret.get_secret_value() for secret in secrets)
        return Failures(
            self._address,
            model,
            self._variables,
            (*(text for text in written if text and text != NO_KEY), *self._address.secrets),
        )

    # -- the package --------------------------------------------------------------------

    async def _connected(self) -> Any:
        known = self._connections.setdefault(asyncio.get_running_loop(), _Connection())
        async with known.lock:
            if known.sdk is None:
                # importing the package and reading certificates take long
                known.sdk = await asyncio.to_thread(self._sdk)
        return known.sdk

    def _sdk(self) -> Any:
        import openai  # noqa: PLC0415 - an extra, and slow to import

        headers: dict[str, Any] = {}
        if not self._is_openai:
            names = [*_AMBIENT_HEADERS, *_header_names(os.environ.get(_MORE_HEADERS, ""))]
            headers = dict.fromkeys(names, openai.Omit())
        headers |= {name: value.get_secret_value() for name, value in self._headers.items()}
        return openai.AsyncOpenAI(
            api_key=self._key.get_secret_value(),
            base_url=self._address.url,
            default_query=self._address.query,
            timeout=openai.Timeout(self._timeout, connect=min(_CONNECT, self._timeout)),
            max_retries=self._max_retries,
            default_headers=headers,
        )


def _header_names(text: str) -> list[str]:
    return [line.partition(":")[0].strip() for line in text.splitlines() if ":" in line]


async def _data(
    sdk: Any, body: dict[str, Any], failures: Failures
) -> AsyncGenerator[dict[str, Any], None]:
    """Give the completion, or its pieces, as plain data; raises ModelError and nothing behind it."""
    import openai  # noqa: PLC0415 - as above

    rest = {key: value for key, value in body.items() if key not in {"model", "messages", "stream"}}
    known: tuple[type[Exception], ...] = (openai.OpenAIError, *transport_errors())
    failed: ModelError | None = None
    try:
        answer = await sdk.chat.completions.create(
            model=body["model"],
            messages=body["messages"],
            stream=bool(body.get("stream")),
            extra_body=rest,
        )
        if body.get("stream"):
            async with answer:
                async for piece in answer:
                    yield _plain(piece, failures)
        else:
            yield _completion(_plain(answer, failures), failures)
    except known as error:
        failed = failures.of(error)
    if failed is not None:
        raise failed


def _plain(answer: Any, failures: Failures) -> dict[str, Any]:
    """Give an object of the package as data; raises ModelError for what is no completion."""
    if isinstance(answer, str) or not callable(getattr(answer, "to_dict", None)):
        raise failures.no_completion()
    data: dict[str, Any] = answer.to_dict(mode="json", warnings=False)
    error = data.get("error")
    if error:
        status = error.get("code") if isinstance(error, dict) else None
        text = str(error.get("message") if isinstance(error, dict) else error)
        if isinstance(status, int) and status >= _REFUSED:
            raise failures.refused(status, text)
        raise failures.failed(text)
    return data


def _completion(data: dict[str, Any], failures: Failures) -> dict[str, Any]:
    if not isinstance(data.get("choices"), list):
        raise failures.no_completion()
    return data
