"""Handles: what stands for a value while a plan is written in Python.

A handle knows its place in the plan and no value: that is there only when the plan runs.
What would need the value (truth, a loop, arithmetic, a comparison, text) is refused with
what to write instead, so that no mistake ends up in a plan unnoticed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from planbench.errors import LanguageError
from planbench.plan.conditions import Operand
from planbench.plan.paths import compile_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.plan.builder import Plan

FIELDS: Final = re.compile(r"[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]+)*")
_GUARD: Final = "a guard decides: when=listing.facet('count') > 0"


def _refusal(doing: str, hint: str) -> Callable[..., NoReturn]:
    def refuse(handle: Handle, *_: object) -> NoReturn:
        raise LanguageError(
            f"{handle!r} has its value only when the plan runs, so {doing}",
            hint=handle.advice.get(hint, hint).replace("listing", handle.example),
        )

    return refuse


_COMPUTE: Final = _refusal(
    "nothing can be computed from it here", "compute in a tool, and add a call of that tool"
)
_COMPARE: Final = _refusal("it cannot be compared here", _GUARD)
_TEXT: Final = _refusal(
    "it cannot be put into a text here", "put its placeholder in: f'... {listing.text} ...'"
)


class Handle:
    """Stands for a value that is known only when the plan runs.

    As an argument it is its placeholder, also inside lists and maps; ``text`` is that
    placeholder as text, for f-strings.
    """

    __slots__ = ("text",)
    advice: ClassVar[dict[str, str]] = {}
    example = "listing"

    def __init__(self, text: str) -> None:
        self.text = text

    __bool__ = _refusal("it cannot be tested for truth here", _GUARD)
    __iter__ = __len__ = __reversed__ = _refusal(
        "it cannot be counted or looped over here",
        "fan out over it: p.map(tool, listing['rows[]'], key=item)",
    )
    __contains__ = _refusal("nothing can be looked up in it here", _GUARD)
    __call__ = _refusal("it cannot be called", "add another call: p.add(tool, ...)")
    __await__ = __aiter__ = _refusal(
        "it cannot be awaited here", "build the plan and run it: await run_plan(p.build(), ...)"
    )
    __setitem__ = __delitem__ = _refusal("it cannot be changed", "change the value in a tool")
    __format__ = __str__ = __fspath__ = _TEXT
    __int__ = __float__ = __complex__ = __index__ = __round__ = _COMPUTE
    __neg__ = __pos__ = __abs__ = __invert__ = _COMPUTE
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _COMPUTE
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _COMPUTE
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __matmul__ = __divmod__ = _COMPUTE
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __rmatmul__ = _COMPUTE
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _COMPARE
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        hint = "" if name.startswith("_") else self.advice.get("attribute", "")
        hint = hint.replace("listing", self.example)
        raise AttributeError(f"{self!r} has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return f"<{self.text}>"


class NodeHandle(Handle):
    """Stands for what a node stores.

    ``listing["keys[]"]`` is a path into it, to fan out over; ``facet`` and ``status``
    are for guards, ``ref`` is the small reference that ``{nodes.<id>.output}`` names.
    """

    __slots__ = ("example", "id", "plan")
    advice: ClassVar = {"attribute": "; a path is written in brackets, as listing['rows[].name']"}

    def __init__(self, plan: Plan, node_id: str) -> None:
        super().__init__(f"{{artifacts.{node_id}}}")
        self.plan = plan
        self.id = node_id
        self.example = node_id if node_id.isidentifier() else "handle"

    def __getitem__(self, path: str) -> PathHandle:
        compile_path(path)
        return PathHandle(self, path)

    @property
    def ref(self) -> Handle:
        """The node's small reference: keys, facets and status, never the body."""
        return Handle(f"{{nodes.{self.id}.output}}")

    @property
    def status(self) -> Operand:
        """How the node ended, for a guard: ``fetch.status == "ok"``."""
        return Operand(("status", self.id))

    def facet(self, name: str) -> Operand:
        """Give a facet for a guard: ``listing.facet("n") > 0``."""
        return Operand(("artifacts", self.id, name))


class PathHandle(Handle):
    """Stands for a part of what a node stores: the source of a fan-out, and nothing else."""

    __slots__ = ("example", "node", "path")

    def __init__(self, node: NodeHandle, path: str) -> None:
        super().__init__(node.text)
        self.node = node
        self.path = path
        self.example = node.example

    def __repr__(self) -> str:
        return f"<{self.path} of {self.node.text}>"


class ParamHandle(Handle):
    """Stands for a parameter, which gets its value when the plan is built or started."""

    __slots__ = ("example", "name", "type")
    advice: ClassVar = {_GUARD: "compare a facet with it: when=rows.facet('n') > listing"}

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"{{params.{name}}}")
        self.name = self.example = name
        self.type = kind

    @property
    def in_guard(self) -> str:
        """How it is written in a guard: a text in quotes, anything else as it is."""
        return f'"{self.text}"' if self.type in {"str", "date", "datetime"} else self.text


class ItemHandle(Handle):
    """Stands for the current item of a fan-out; ``item["owner.name"]`` is a field of it."""

    __slots__ = ()
    advice: ClassVar = {
        "attribute": "; a field is written in brackets, as item['name']",
        _GUARD: "let the tool decide for each item",
    }

    example = "item"

    def __getitem__(self, fields: Any) -> ItemHandle:
        if not isinstance(fields, str) or not FIELDS.fullmatch(fields):
            raise LanguageError(
                f"{fields!r} names no field of an item",
                hint="fields are letters, digits, _ and -, as in item['owner.name']",
            )
        return ItemHandle(f"{self.text[:-1]}.{fields}}}")


item: Final = ItemHandle("{item}")
"""The current item of a fan-out: ``p.map(fetch, listing["rows[]"], key=item["key"])``."""

index: Final = Handle("{index}")
"""The place of the current item, counted from 0."""


class Facet:
    """A facet that is counted: how many, or how many of each."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        compile_path(path)
        self.kind = kind
        self.path = path

    def __repr__(self) -> str:
        return f"{'count' if self.kind == 'counts' else 'groups'}({self.path!r})"


def count(path: str) -> Facet:
    """Give the facet that says how many there are at a path."""
    return Facet("counts", path)


def groups(path: str) -> Facet:
    """Give the facet that says how many there are of each value at a path."""
    return Facet("group_counts", path)


def text_of(handle: Handle, owner: Any, *, has_item: bool) -> str:
    """Give the placeholder that a handle writes; raises LanguageError where it cannot stand."""
    if isinstance(handle, PathHandle):
        raise LanguageError(
            f"{handle!r} cannot be an argument: a tool is given the whole result",
            hint="give the handle without a path, or fan out over the path with p.map",
        )
    if isinstance(handle, NodeHandle) and handle.plan is not owner:
        raise LanguageError(f"{handle!r} belongs to another plan")
    if not has_item and (isinstance(handle, ItemHandle) or handle is index):
        raise LanguageError(
            f"{handle!r} has a meaning only in a fan-out", hint="write p.map(tool, source, ...)"
        )
    return handle.text
