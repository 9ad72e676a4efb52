"""What tools gave on earlier calls: names and types of the outer levels, never a value.

It stands in where a tool says nothing of its result. A name is noted only where a path
could read it, and a map of many keys, or of other keys at each call, is taken for data:
its keys are not kept.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.shapes import is_frame

if TYPE_CHECKING:
    from planbench.tools.definition import Tool

MAX_TOOLS: Final = 1000
MAX_LEVELS: Final = 4
MAX_FIELDS: Final = 64
MAX_NAMES: Final = 1000

_ITEMS: Final = 3  # elements of a list that are looked at
_RAREST: Final = 1024
_NAME: Final = re.compile(r"[\w\-]{1,80}")
_KINDS: Final = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
    tuple: "array",
}


class ObservedShapes:
    """The shapes of the last results of each tool, kept for as long as its code stays the same.

    A tool's calls are looked at ever more rarely: the first, second, fourth and so on, at
    last one in 1,024. Any thread may observe.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def observe(self, tool: Tool, value: Any) -> None:
        """Note what a call of the tool gave; a call that is not looked at costs next to nothing."""
        entry = self._seen.get(tool.name)
        if entry is not None and entry.fingerprint == tool.fingerprint:
            entry.left -= 1
            if entry.left > 0:
                return
        with self._lock:
            self._look(tool, value)

    def schema(self, tool: Tool) -> dict[str, Any] | None:
        """Give what was seen as a JSON Schema; None for a tool of which nothing was."""
        entry = self._seen.get(tool.name)
        if entry is None or entry.fingerprint != tool.fingerprint:
            return None
        with self._lock:
            return entry.form.schema()

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._seen.clear()

    def _look(self, tool: Tool, value: Any) -> None:
        entry = self._seen.get(tool.name)
        if entry is None or entry.fingerprint != tool.fingerprint:
            entry = _Entry(tool.fingerprint)
        elif entry.left > 0:  # another thread has just looked
            return
        self._seen.pop(tool.name, None)
        if len(self._seen) >= MAX_TOOLS:
            del self._seen[next(iter(self._seen))]
        self._seen[tool.name] = entry
        entry.left = entry.pause
        entry.pause = min(2 * entry.pause, _RAREST)
        entry.form.add(value, 0, entry)


class _Entry:
    """What was seen of one tool; the next call that counts is ``left`` calls away."""

    __slots__ = ("fingerprint", "form", "left", "names", "pause")

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.form = _Form()
        self.left = 0
        self.pause = 1
        self.names = MAX_NAMES


class _Form:
    """The types seen at one place; ``is_open`` says that anything may stand in it."""

    __slots__ = ("fields", "is_frame", "is_open", "items", "kinds")

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.fields: dict[str, _Form] = {}
        self.items: _Form | None = None
        self.is_open = False
        self.is_frame = False

    def add(self, value: Any, level: int, entry: _Entry) -> None:
        """Take a value in; nothing of it is called, compared or kept."""
        kind = _KINDS.get(type(value))
        if kind is None:
            if is_frame(value):
                self._add_frame(value, entry)
            else:
                self.is_open = True
            return
        self.kinds[kind] = None
        if level >= MAX_LEVELS:
            self.is_open = self.is_open or kind in {"object", "array"}
        elif kind == "object":
            self._add_map(value, level, entry)
        elif kind == "array":
            if self.items is None:
                self.items = _Form()
            for item in value[:_ITEMS]:
                self.items.add(item, level + 1, entry)

    def _add_map(self, value: dict[Any, Any], level: int, entry: _Entry) -> None:
        if self.is_open:
            return
        if len(value) > MAX_FIELDS:
            self._open()
            return
        names = list(value)
        new = [name for name in names if name not in self.fields]
        others = self.fields and names and len(new) == len(names)
        if others or len(self.fields) + len(new) > MAX_FIELDS or len(new) > entry.names:
            self._open()
            return
        if not all(type(name) is str and _NAME.fullmatch(name) for name in new):
            self._open()
            return
        entry.names -= len(new)
        for name in names:
            self.fields.setdefault(name, _Form()).add(value[name], level + 1, entry)

    def _add_frame(self, value: Any, entry: _Entry) -> None:
        """Take in the columns of a table, whose path may start with a name or with ``[]``."""
        self.is_frame = True
        names = list(value.columns[: MAX_FIELDS + 1])
        if len(names) > min(MAX_FIELDS, entry.names) or not all(
            type(name) is str and _NAME.fullmatch(name) for name in names
        ):
            self._open()
        elif not self.is_open:
            entry.names -= sum(name not in self.fields for name in names)
            for name in names:
                self.fields.setdefault(name, _Form()).is_open = True

    def _open(self) -> None:
        self.is_open = True
        self.fields.clear()

    def schema(self) -> dict[str, Any]:
        """Write it as a JSON Schema; an open one says nothing."""
        if self.is_open or not (self.kinds or self.is_frame):
            return {}
        forms = [self._schema(kind) for kind in self.kinds]
        if self.is_frame:
            row = {"type": "object", "properties": {name: {} for name in self.fields}}
            forms += [row, {"type": "array", "items": row}]
        return forms[0] if len(forms) == 1 else {"anyOf": forms}

    def _schema(self, kind: str) -> dict[str, Any]:
        if kind == "array":
            return {"type": kind, "items": {} if self.items is None else self.items.schema()}
        if kind == "object" and self.fields:
            return {"type": kind, "properties": {n: f.schema() for n, f in self.fields.items()}}
        return {"type": kind}
