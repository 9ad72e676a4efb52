"""What a fan-out is spread over: the items of a list, the rows of a frame."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.plan.shapes import is_frame
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from planbench.memory.entries import Entry
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.masking import Masking

MAX_KEY: Final = 500
"""Characters of a key of the working memory."""


class SourceNotList(Exception):  # told to the node
    """Raised when what a fan-out should spread is no list; the text names the type."""


def open_items(node: CompiledNode, source: Any) -> list[Any]:
    """Give the items of a fan-out: a list as it is, the rows of a frame as maps."""
    value = source if node.select is None else node.select.read(source)
    each = node.node.for_each
    assert each is not None
    if isinstance(value, list):
        items = value
    elif isinstance(value, tuple):
        items = list(value)
    elif is_frame(value):
        items = _rows(value)
    else:
        path = f" at {node.select.text!r}" if node.select else ""
        raise SourceNotList(
            f"for_each needs a list, and {each.source}{path} is {_described(value)}"
        )
    if len(items) > each.max_items:
        raise SourceNotList(f"for_each has {len(items)} items, over max_items of {each.max_items}")
    return items


def _rows(frame: Any) -> list[Any]:
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise SourceNotList(f"for_each over a DataFrame with two columns {name!r} would lose one")
    rows: list[Any] = frame.to_dict("records")
    return rows


def _described(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def tolerated(most: int | str | None, total: int) -> int:
    """Turn ``max_failed`` into a number of items; without one any number may fail."""
    if most is None:
        return total
    if isinstance(most, str):
        return math.floor(total * Fraction(most.rstrip("%")) / 100)
    return most


def name_artifact(data: dict[str, Any], entry: Entry, artifact: dict[str, Any] | None) -> None:
    """Say in a record which artifact it is about, so that another process finds it."""
    data["artifact_id"] = entry.artifact_id
    if artifact is not None:
        data["artifact"] = artifact


class Call(NamedTuple):
    """One call of a fan-out: which item, where its value goes, what it is asked, since when."""

    item: int
    key: str
    digest: str | None
    began: float
    reused: bool = False


async def given(value: Any) -> Any:
    """Give a value that is there already to who awaits one."""
    return value


def check_key(key: str, node_id: str, owner: str | None, secrets: Masking | None) -> None:
    """Refuse a key that the run has taken, that holds a secret, or that is no text of fit length."""
    if secrets is not None and secrets.holds(key):
        msg = "store_as gives a key that holds a secret, and keys are recorded"
        raise ValueError(msg)
    if owner is not None:
        place = "another item" if owner == node_id else f"node {owner!r}"
        msg = f"store_as gives the key {key[:80]!r}, which {place} has taken in this run"
        raise ValueError(msg)
    if not 0 < len(key) <= MAX_KEY:
        msg = f"store_as gives a key of {len(key)} characters; 1 to {MAX_KEY} are allowed"
        raise ValueError(msg)
    if as_utf8(key) is not key:
        msg = "store_as gives a key that holds half of a surrogate pair, which is no text"
        raise ValueError(msg)
