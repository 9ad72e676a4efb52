"""The URLs of stores: their options, and how they are shown without what is secret in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from planbench.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

HIDDEN: Final = "***"
_SECRET_OPTIONS: Final = frozenset({"password", "sslpassword", "username", "user", "passfile"})


def shown_address(url: str) -> str:
    """Give a URL without its credentials and options; of one that is odd, the scheme only."""
    scheme, found, rest = url.partition("://")
    if not found:
        return HIDDEN
    place, _, options = rest.partition("?")
    if "@" in place:
        place = place.rpartition("@")[2]
    elif "@" in options:  # an @ behind a ?: perhaps a password with a ? in it
        place = ""
    return f"{scheme}://{place}"


def secrets_of_url(url: str) -> list[str]:
    """List what must not be in any message: credentials, as written and as they are meant."""
    place = url.partition("://")[2]
    written = place.rpartition("@")[0].partition(":")[2]
    found = {written, unquote(written)}
    for name, value in parse_qsl(place.partition("?")[2]):
        if name.lower() in _SECRET_OPTIONS and "password" in name.lower():
            found.add(value)
    return sorted((one for one in found if one), key=len, reverse=True)


def options_of(url: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Take the named options out of a URL: the URL without them, and their values.

    Raises ConfigurationError for a URL that cannot be read.
    """
    try:
        urlsplit(url)
        base, _, query = url.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigurationError(
            f"the address {shown_address(url)} cannot be read: {type(error).__name__}"
        ) from None
    mine = {name: value for name, value in pairs if name in names}
    rest = [(name, value) for name, value in pairs if name not in names]
    return (f"{base}?{urlencode(rest)}" if rest else base), mine
