"""A plan's text in the short form or in the long one, with its layout and comments kept.

Only what the other form writes differently is touched. Where that cannot be done, as
with anchors that several nodes share, the short form leaves the place as it is, and the
long one, which other readers rely on, is written anew.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from planbench.errors import LanguageError, PlanInvalid
from planbench.plan.collector import paused_collector
from planbench.plan.document import format_json, format_yaml, read_document
from planbench.plan.draft import draft, unwrapped
from planbench.plan.facet_layout import flatten, spread
from planbench.plan.records import same
from planbench.plan.rewriting import Rewriting, change_inside
from planbench.plan.short_guards import lengthened, shortened
from planbench.plan.sugar import BEFORE_EDGES, Vocabulary, long_plan, short_plan
from planbench.plan.writer import entry_lines, flow_text
from planbench.plan.written import Written, is_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planbench.plan.document import Document
    from planbench.plan.draft import Draft
    from planbench.plan.model import ExecutionPlan
    from planbench.plan.written import Entry, Piece

BOM: Final = "\ufeff"


class Formatted(NamedTuple):
    """A text in the form that was asked for, and the comments that found no place in it."""

    text: str
    lost: list[str]


def format_plan(text: str, *, reference: bool = False) -> Formatted:
    """Give a plan's text in the short form, or in the long one that reference files have.

    The result reads as the same plan, and formatted again it stays as it is. JSON is
    written anew. Raises PlanInvalid for a text that is no valid plan.
    """
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    with paused_collector():
        document = read_document(text)
        made = _valid(document)
        for candidate in _candidates(text, document.value, made, reference=reference):
            if _is_the_same(candidate, made.plan, reference=reference):
                return Formatted(bom + candidate, _lost(text, candidate))
    raise LanguageError("the plan cannot be written in that form and stay the same")


def plan_of(text: str) -> Draft:
    """Read a text that must be a valid plan; raises PlanInvalid with every issue."""
    return _valid(read_document(text))


def _valid(document: Document) -> Draft:
    made = draft(document)
    if made.plan is None:
        raise PlanInvalid(made.issues, name=made.name)
    return made


def _candidates(text: str, whole: dict[str, Any], made: Draft, *, reference: bool) -> Iterator[str]:
    root = made.document.value
    target = long_plan(root) if reference else short_plan(root)
    whole = target if "nodes" in whole else {**whole, "plan": target}
    if is_json(text):
        yield format_json(whole)
        return
    # what cannot be changed in its place is written anew
    with contextlib.suppress(LanguageError):
        yield _Form(Written(text), root, target, reference=reference).text()
    yield _header(text) + format_yaml(whole)


def _is_the_same(text: str, plan: ExecutionPlan | None, *, reference: bool) -> bool:
    made = draft(read_document(text))
    if made.plan is None or not same(made.plan, plan):
        return False
    root = unwrapped(made.document).value
    return not reference or same(long_plan(root), root)


def _header(text: str) -> str:
    """Give the comments and blank lines before the first key."""
    lines = []
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            break
        lines.append(line)
    return "".join(lines)


def _lost(old: str, new: str) -> list[str]:
    if "#" not in old:
        return []
    return list((_comments(old) - _comments(new)).elements())


def _comments(text: str) -> Counter[str]:
    written = Written(text)
    return Counter(text[found.start : found.end].rstrip() for found in written.comments())


class _Form:
    """Changes the nodes of one text into their other form, field by field."""

    def __init__(
        self, written: Written, root: dict[str, Any], target: dict[str, Any], *, reference: bool
    ) -> None:
        self._rewriting = Rewriting(written)
        self._names = Vocabulary(root["nodes"]).names
        self._root = root
        self._target = target
        self._reference = reference

    def text(self) -> str:
        """Make the changes."""
        nodes = self._rewriting.written.at(("nodes",))
        if nodes is None:
            return self._rewriting.text
        for piece, record, wanted in zip(
            nodes.items, self._root["nodes"], self._target["nodes"], strict=True
        ):
            # what other nodes repeat is changed for all of them, or for none
            if piece.kind == "map" and (self._reference or piece.anchor is None):
                self._node(piece, record, wanted)
        return self._rewriting.text

    def _node(self, piece: Piece, record: dict[str, Any], wanted: dict[str, Any]) -> None:
        after = next((e for key in reversed(BEFORE_EDGES) if (e := piece.own(key))), None)
        dropped: list[Entry] = []
        for key, value in record.items():
            entry = piece.own(key)
            if key not in wanted:
                if entry is not None and self._may_go(piece, entry):
                    dropped.append(entry)
            elif wanted[key] is not value and wanted[key] != value:
                if entry is not None and not entry.value.is_shared:
                    self._change(key, entry, value, wanted[key])
                elif self._reference:
                    raise LanguageError("an alias brings what must be written out")
        if len(dropped) < len(piece.entries):
            self._rewriting.remove(piece, dropped)
        for key, value in wanted.items():
            if key not in record:
                self._rewriting.insert(piece, key, value, after)

    def _may_go(self, piece: Piece, entry: Entry) -> bool:
        """Whether nothing else needs an entry, and no merge puts another in its place."""
        is_needed = entry.value.is_shared and entry.value.kind != "alias"
        return not is_needed and self._rewriting.written.merged(piece, entry.key.text) is None

    def _change(self, key: str, entry: Entry, old: Any, new: Any) -> None:
        rewriting = self._rewriting
        if key == "facets":
            (spread if self._reference else flatten)(rewriting, entry, new)
        elif key == "when":
            form = lengthened if self._reference else shortened
            change_inside(
                rewriting,
                entry,
                old,
                new,
                lambda text: new if text == old else form(text, self._names),
            )
        else:
            plain = isinstance(new, str) and not entry.value.in_flow
            text = entry_lines("-", new)[0][2:] if plain else flow_text(new)
            rewriting.replace_by_text(entry.key, entry.value, text)
