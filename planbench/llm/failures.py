"""What can go wrong between here and a model, in our words and without a key in them."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import json
import math
import re
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from planbench.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.llm.endpoints import Address

_MAX_TEXT: Final = 300
_MASK: Final = "***"
_SHORTEST_SECRET: Final = 4
_UNAUTHORIZED: Final = (401, 403)
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_FAILED: Final = 500
_DEEPEST: Final = 5
_WAITS: Final = (("retry-after-ms", 1000), ("retry-after", 1))


def transport_errors() -> tuple[type[Exception], ...]:
    """Give what a connection may raise on its own, in a stream that the package passes through."""
    found: list[type[Exception]] = [json.JSONDecodeError, RecursionError]
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ImportError):
            found.append(importlib.import_module(name).HTTPError)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Failures:
    """Says what failed at one address, with its key masked wherever it shows."""

    address: Address
    model: str
    variables: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)

    def of(self, error: Exception) -> ModelError:
        """Give the error to raise for one of the package or of the connection."""
        status = getattr(error, "status_code", None)
        detail = getattr(error, "code", None)
        if isinstance(status, int):
            return self.refused(status, _said(error), detail, _headers(error))
        name = type(error).__name__
        if name == "APITimeoutError" or "Timeout" in name:
            return self._error(
                "model_timeout", "did not answer in time", hint="give a longer timeout="
            )
        if isinstance(error, ValueError | RecursionError):
            return self.no_completion()
        body = getattr(error, "body", None)
        if body:  # an error that was sent inside of an answer
            return self._error("model_failed", f"failed: {self._shown(_said(error))}")
        cause = _cause(error)
        return self._error(
            "model_unreachable",
            f"cannot be reached: {self._shown(cause)}",
            hint="look whether the address is right and the server runs",
        )

    def refused(
        self, status: int, text: str, detail: Any = None, headers: Mapping[str, str] | None = None
    ) -> ModelError:
        """Give the error for an answer with a status that is none of success."""
        wait = _wait(headers or {})
        code, hint = "model_request_refused", None
        if status in _UNAUTHORIZED:
            code = "model_unauthorized"
            hint = (
                f"look at {self.variables[0] if self.variables else 'the api_key that was given'}"
            )
        elif status == _NOT_FOUND:
            code, hint = "model_not_found", "look at the name of the model and at base_url"
        elif status == _TOO_MANY:
            code = "rate_limited"
            hint = f"the server asks to wait {wait:g} seconds" if wait else None
        elif status >= _FAILED:
            code = "model_failed"
        text = f"answered {status}: {self._shown(text)}"
        made = self._error(code, text, hint=hint)
        made.status, made.retry_after = status, wait
        made.detail = self._shown(str(detail)) if detail is not None else None
        return made

    def no_completion(self) -> ModelError:
        """Give the error for an answer that is no chat completion."""
        return self._error(
            "model_failed",
            "answered with what is no chat completion",
            hint="look at base_url: most end in /v1",
        )

    def broke_off(self) -> ModelError:
        """Give the error for a stream that ended before its answer did."""
        return self._error("model_unreachable", "broke off in the middle of its answer")

    def failed(self, text: str) -> ModelError:
        """Give the error for one that came inside of an answer."""
        return self._error("model_failed", f"failed: {self._shown(text)}")

    def _error(self, code: str, text: str, *, hint: str | None = None) -> ModelError:
        message = f"model {self.model!r} at {self.address.host} {text}"
        return ModelError(code, message, model=self.model, hint=hint)

    def _shown(self, text: str) -> str:
        for form in sorted({form for secret in self.secrets for form in _forms(secret)}, key=len)[
            ::-1
        ]:
            text = re.sub(re.escape(form), _MASK, text, flags=re.IGNORECASE)
        text = " ".join(text.split())
        return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _cause(error: BaseException) -> str:
    """Give what is behind a broken connection: the nearest text, and the name where nothing has one."""
    named = error.__cause__ or error
    behind: BaseException | None = named
    for _ in range(_DEEPEST):
        if behind is None:
            break
        if str(behind):
            return str(behind)
        behind = behind.__cause__ or behind.__context__
    return type(named).__name__


def _said(error: Exception) -> str:
    """Give what the endpoint itself said, without the frame that the package puts around it."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else body
    if isinstance(message, str) and message.strip():
        return message
    return str(getattr(error, "message", "") or error)


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    return headers


def _forms(secret: str) -> set[str]:
    """Give a secret as it may stand in a text: as it is, in an address, in JSON."""
    if len(secret) < _SHORTEST_SECRET:
        return set()
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
    }


def _wait(headers: Mapping[str, str]) -> float | None:
    """Give the seconds that a server asks to wait, which it may write as a date."""
    for name, parts in _WAITS:
        try:
            seconds = float(headers.get(name, "")) / parts
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=dt.UTC)
    left = (until - dt.datetime.now(dt.UTC)).total_seconds()
    return float(max(0, math.ceil(left)))
