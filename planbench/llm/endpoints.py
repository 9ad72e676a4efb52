"""Where models are served, and which key goes to which address."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from planbench.errors import ConfigurationError
from planbench.plan.structure import suggestion

OPENAI: Final = "openai"
NO_KEY: Final = "none"
"""Sent to servers that ask for no key: the wire format has a place for one."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One service that speaks the chat completions of OpenAI.

    ``keys`` are the variables that may hold its key, the first that is set counts; a
    server without any takes none. ``url_variable`` may move it to another address.
    """

    name: str
    base_url: str
    keys: tuple[str, ...] = ()
    url_variable: str | None = None
    max_tokens_field: str = "max_tokens"
    reports_cost: bool = False


_ALL: Final = (
    Provider(
        OPENAI,
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        max_tokens_field="max_completion_tokens",
    ),
    Provider(
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    Provider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",)),
    Provider("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    Provider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    Provider("deepseek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    Provider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    Provider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        reports_cost=True,
    ),
    Provider("ollama", "http://127.0.0.1:11434/v1"),
    Provider("lmstudio", "http://127.0.0.1:1234/v1"),
    Provider("llamacpp", "http://127.0.0.1:8080/v1"),
    Provider("vllm", "http://127.0.0.1:8000/v1"),
)
PROVIDERS: Final = {provider.name: provider for provider in _ALL}
_ALIASES: Final = {"gemini": "google"}


def provider_of(name: str) -> Provider:
    """Give the provider of that name; raises ConfigurationError, which names a near one."""
    found = PROVIDERS.get(_ALIASES.get(name, name))
    if found is None:
        known = ", ".join(PROVIDERS)
        near = suggestion(name, [*PROVIDERS, *_ALIASES])
        raise ConfigurationError(
            f"there is no provider {name!r}",
            hint=f"{near}; known: {known}" if near else f"known: {known}",
        )
    return found


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go, and whether that is the provider's own place; its repr shows ``host``."""

    url: str
    is_own: bool

    def __repr__(self) -> str:
        return f"<Address {self.host}>"

    @property
    def host(self) -> str:
        """The address without a user, a password and a query: what may be shown."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}".rstrip("/")


def address_of(provider: Provider, base_url: str | None) -> Address:
    """Give the address to ask: the one from code, the one from the environment, or its own.

    Raises ConfigurationError for what is no http address.
    """
    ambient = os.environ.get(provider.url_variable, "") if provider.url_variable else ""
    url = base_url or ambient.strip() or provider.base_url
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        own = urlsplit(provider.base_url)
        is_own = (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
        _ = parts.port
    except ValueError:
        is_address = is_own = False
    if not is_address:
        where = provider.url_variable if url is not base_url else "base_url"
        raise ConfigurationError(
            f"{where} is no http address",
            hint='write for example: base_url="http://127.0.0.1:8000/v1"',
        )
    return Address(url.rstrip("/"), is_own)


def key_for(provider: Provider, base_url: str | None, api_key: str | None, address: Address) -> str:
    """Give the key for an address; raises ConfigurationError where there is none to give.

    A key of the environment goes to its own provider only, or to where the environment
    itself says that this provider is. An address that was written in code needs its key
    beside it.
    """
    if api_key is not None:
        return api_key or NO_KEY
    if not provider.keys:
        return NO_KEY
    if base_url is not None and not address.is_own:
        raise ConfigurationError(
            f"a base_url other than {provider.name}'s own needs its own api_key: "
            f"{provider.keys[0]} is not sent to {address.host}",
            hint='give api_key="...", or api_key="" for a server that wants none',
        )
    for variable in provider.keys:
        if key := os.environ.get(variable, "").strip():
            return key
    raise ConfigurationError(
        f"there is no key for {provider.name}: {' or '.join(provider.keys)} is not set",
        hint=f"set {provider.keys[0]}, or give api_key=",
    )
