"""What a text selects among entries: a pattern of keys, a word in what is known of them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from planbench.errors import ConfigurationError

if TYPE_CHECKING:
    from planbench.memory.entries import Entry


def text_of(text: object) -> str:
    """Give the text itself; raises ConfigurationError for what is none."""
    if not isinstance(text, str):
        raise ConfigurationError(
            f"entries are found by text, not by {type(text).__name__}",
            hint='write a key, a node id or a pattern such as "fetch_*"',
        )
    return text


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern and not a key."""
    return any(mark in text_of(text) for mark in "*?[")


def matches(key: str, pattern: str) -> bool:
    """Whether a key is the pattern, or fits it."""
    return key == pattern or fnmatchcase(key, pattern)


def family(entry: Entry) -> str:
    """What an entry is sorted with: the items of one fan-out belong together."""
    if entry.index is None or entry.node is None:
        return f"key {entry.key}"
    return f"node {entry.node}"


def words(entry: Entry) -> tuple[str | None, ...]:
    """Give what a search looks at."""
    return entry.key, entry.node, entry.tool, entry.description
