"""From what a user writes for a model to the client that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planbench.errors import ConfigurationError
from planbench.llm.openai import OpenAIClient
from planbench.plan.source import shown

if TYPE_CHECKING:
    from planbench.llm.client import ModelClient

_HINT = 'write "provider:model", such as "ollama:llama3.2"'


def client_of(spec: Any) -> ModelClient:
    """Give the client that is meant.

    ``spec`` is ``"provider:model"``, a dict with ``provider``, ``model`` and the options
    of ``OpenAIClient``, a client, or a class of one. Raises ConfigurationError for an
    unknown provider, a missing model, a missing key (it names the variable) or a
    missing package. There is no default model.
    """
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, Mapping):
        return _described(dict(spec))
    if isinstance(spec, type) and callable(getattr(spec, "complete", None)):
        spec = _made(spec)
    if callable(getattr(spec, "complete", None)):
        client: ModelClient = spec
        return client
    raise ConfigurationError(f"{shown(spec)} is no model", hint=_HINT)


def _named(spec: str) -> ModelClient:
    provider, colon, model = spec.strip().partition(":")
    if not colon or not model.strip():
        raise ConfigurationError(f"{spec!r} names no provider and model", hint=_HINT)
    return OpenAIClient(model.strip(), provider=provider.strip().lower())


def _described(options: dict[str, Any]) -> ModelClient:
    model = options.pop("model", None)
    if not isinstance(model, str) or not model:
        raise ConfigurationError(
            "the map of a model has no 'model'",
            hint='write: {"provider": "ollama", "model": "llama3.2"}',
        )
    provider = options.pop("provider", None)
    if not isinstance(provider, str):
        raise ConfigurationError(
            "the map of a model has no 'provider'",
            hint='write: {"provider": "openai", "model": ..., "base_url": ..., "api_key": ...}',
        )
    return OpenAIClient(model, provider=provider.strip().lower(), **options)


def _made(kind: type) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise ConfigurationError(
            f"{kind.__name__} cannot be made without arguments: {error}",
            hint=f"give an instance: {kind.__name__}(...)",
        ) from error
