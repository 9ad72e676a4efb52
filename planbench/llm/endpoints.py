"""Where models are served, and which key goes to which address."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from planbench.errors import ConfigurationError
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENAI: Final = "openai"
NO_KEY: Final = "none"
"""Sent to servers that ask for no key: the wire format has a place for one."""
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")


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
    """Where requests go, and whether that is the provider's own place; its repr shows ``host``.

    ``query`` goes with every request; ``secrets`` is what of the address may not be shown.
    """

    url: str
    is_own: bool
    query: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Address {self.host}>"

    @property
    def host(self) -> str:
        """The address without a user, a password and a query: what may be shown."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}".rstrip("/")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password in the address, as it is written and as it is sent, and the values of the query."""
        parts = urlsplit(self.url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not user and not password:
            return tuple(self.query.values())
        sent = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        return (password or user, sent, *self.query.values())


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
    plain = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return Address(plain, is_own, dict(parse_qsl(parts.query)))


def sendable(what: str, text: Any) -> str:
    """Give a text as a header holds it, without the blanks around it.

    Raises ConfigurationError, which never shows it.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"{what} is a text, not {type(text).__name__}")
    plain: str = text.strip()
    for place, sign in enumerate(plain, 1):
        if not " " <= sign <= "~":
            raise ConfigurationError(
                f"{what} has a sign that no header can hold: character {place} is U+{ord(sign):04X}",
                hint="look for a line break, a dash or a quote that came in when it was copied",
            )
    return plain


def header_of(name: Any, value: Any) -> str:
    """Give the value of a header as it is sent; raises ConfigurationError, which never shows it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError("headers has a name that no header can have")
    return sendable(f"the header {name!r}", value)


def key_for(provider: Provider, base_url: str | None, api_key: str | None, address: Address) -> str:
    """Give the key for an address; raises ConfigurationError where there is none to give.

    A key of the environment goes to its own provider only, or to where the environment
    itself says that this provider is. An address that was written in code needs its key
    beside it.
    """
    if api_key is not None:
        return sendable("api_key", api_key) or NO_KEY
    if not provider.keys:
        return NO_KEY
    if base_url is not None and not address.is_own:
        raise ConfigurationError(
            f"a base_url other than {provider.name}'s own needs its own api_key: "
            f"{provider.keys[0]} is not sent to {address.host}",
            hint='give api_key="...", or api_key="" for a server that wants none',
        )
    for variable in provider.keys:
        if key := sendable(variable, os.environ.get(variable, "")):
            return key
    raise ConfigurationError(
        f"there is no key for {provider.name}: {' or '.join(provider.keys)} is not set",
        hint=f"set {provider.keys[0]}, or give api_key=",
    )
