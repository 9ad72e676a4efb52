"""The edges that a node's own fields show: what it reads, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planbench.errors import GuardError
from planbench.plan.guards import compile_guard
from planbench.plan.model import PARAM, SOURCE
from planbench.plan.placeholders import references

_FOR_PARAMETERS: Final = ("0", "true", '""')  # with one of them in its place a guard can be read


def edges(record: Mapping[str, Any]) -> list[str]:
    """Name the nodes that a node's record reads: fan-out, arguments, instruction, guard; itself left out."""
    each = record.get("for_each")
    each = each if isinstance(each, Mapping) else {}
    found: dict[str, None] = {}
    source = SOURCE.fullmatch(str(each.get("source")))
    if source is not None:
        found[source.group(1)] = None
    alias = str(each.get("as", "item")) if each else None
    texts = [record.get("args", {}), record.get("instruction")]
    for _, piece in references(texts, alias):
        if piece.family in {"artifacts", "nodes"}:
            found[piece.name] = None
    if isinstance(when := record.get("when"), str):
        found |= dict.fromkeys(guard_edges(when))
    found.pop(str(record.get("id")), None)
    return list(found)


def guard_edges(text: str) -> list[str]:
    """Name the nodes that a guard reads; none for a guard that cannot be read."""
    for value in _FOR_PARAMETERS:
        try:
            guard = compile_guard(PARAM.sub(value, text))
        except GuardError:
            continue
        return [read[1] for read in guard.reads if read[0] in {"artifacts", "status"}]
    return []
