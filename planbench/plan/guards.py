"""Guards: CEL expressions that decide whether a node runs.

A guard reads ``ctx`` and nothing else: ``ctx.artifacts.<id>.<facet>``,
``ctx.status.<id>`` and ``ctx.errors``. What it reads is taken from the checked
expression, so the index form ``ctx.artifacts["my-id"].count`` is found as well, and
only that is handed to CEL: converting the facets of 1,000 nodes would cost 480 us.
Guards of one shape share what CEL compiled.

CEL gives an error back as a value that is true, so only a bool that is a bool counts.
This is the one module that knows the CEL library.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from planbench.errors import GuardError
from planbench.plan.checked_expr import ABSENT, COMPARED, SIZED, Reference, Use, references
from planbench.plan.facets import MAX_TEXT, OTHER, gap
from planbench.plan.guard_hints import READS, explain, reason
from planbench.plan.guard_shapes import MAX_SLOTS, Shape, shape_of
from planbench.plan.shapes import a, describe

MAX_GUARD: Final = 10_000

_DEPTHS: Final = {"artifacts": 3, "status": 2, "errors": 1}
_MAX_NESTED: Final = 20
_SHOWN: Final = 120
_OF_A_NUMBER: Final = re.compile(
    r"for '(size)' applied to '\(int\)'|of type 'int' cannot be the range"
    r"|for '@in' applied to '\([^']*, int\)'"
)
_INTEGERS: Final = range(-(2**63), 2**64)
_LOCK: Final = threading.Lock()  # the library promises nothing about threads

_KEPT: Final = 4096  # a plan has few shapes, so few that keep one another out

Read = tuple[str, ...]
_Look = tuple[Read, tuple[str, ...], Use | None]
"""Where a guard looks: what it reads, the names that follow inside it, and what it does there."""


class _Compiled(NamedTuple):
    """What CEL made of a text, what that reads, and where it looks."""

    expression: Any
    reads: tuple[Read, ...]
    looks: tuple[_Look, ...]


class Guard:
    """A compiled guard.

    ``reads`` names what it looks at, in the order of the text: ``("artifacts",
    "listing", "n_reports")``, ``("status", "fetch")`` or ``("errors",)``. ``("artifacts",
    "listing")`` alone stands for all facets of that node, as a map. ``compared`` holds those
    that are compared with plain values.
    """

    __slots__ = ("_expression", "_looks", "_shape", "_taken", "compared", "reads", "text")

    def __init__(self, text: str, compiled: _Compiled, shape: Shape | None = None) -> None:
        names = {} if shape is None else shape.names
        written = {read: tuple(names.get(name, name) for name in read) for read in compiled.reads}
        places = {read: place for place, read in written.items()}
        looks = [(written[place], inside, use) for place, inside, use in compiled.looks]
        self.text = text
        self.compared = frozenset(
            read for read, inside, use in looks if use == COMPARED and not inside
        )
        self.reads: tuple[Read, ...] = tuple(places)
        self._taken = [pair for pair in places.items() if not _inside(pair[0], self.reads)]
        self._looks = looks
        self._expression = compiled.expression
        self._shape = shape

    def evaluate(self, values: Mapping[Read, Any]) -> bool:
        """Answer yes or no from the values of ``reads``; what has no value is left out.

        Raises GuardError with the reason when there is no yes or no: a facet is missing,
        of another type than the guard takes it for, none that CEL can hold, or only says
        what the value is that the guard asks for.
        """
        ctx: dict[str, Any] = {}
        for read, place in self._taken:
            at = ctx
            for name in place[:-1]:
                at = at.setdefault(name, {})
            if read in values:
                at[place[-1]] = self._convert(values[read], read)
        self._check(values)
        data = {"ctx": ctx} if self._shape is None else {"ctx": ctx, **self._shape.values}
        types = _library().Type
        try:
            with _LOCK:
                answer = self._expression.eval(data=data)
                kind, found = answer.type(), answer.value()
        except Exception as error:
            raise self._error(reason(str(error))) from error
        if kind == types.BOOL and isinstance(found, bool):
            return found
        if self._shape is not None:  # what is told names the guard's own words
            return Guard(self.text, _compiled(self.text)).evaluate(values)
        if kind != types.ERROR:
            raise self._error(f"it gave {a(describe(found))}, and a guard must give true or false")
        missing = [_dotted(read) for read in self.reads if read not in values]
        if missing and str(found).startswith("NOT_FOUND"):
            raise self._error(f"{' and '.join(missing)} has no value")
        raise self._error(reason(str(found)))

    def _check(self, values: Mapping[Read, Any]) -> None:
        """Refuse to answer from a facet that holds less than the guard asks for."""
        for read, inside, use in self._looks:
            if read in values and (problem := _unfit(values[read], inside, use)):
                raise self._error(f"{_dotted(read)} {problem}")

    def _convert(self, value: Any, read: Read, depth: int = 0) -> Any:
        """Give a facet as CEL takes it; what CEL would misread is refused."""
        if type(value).__module__ == "numpy" and value.ndim == 0 and value.dtype.kind in "biufU":
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and _is_text(value):
            return str(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, int) and int(value) in _INTEGERS:
            return int(value)
        if isinstance(value, list | tuple) and depth < _MAX_NESTED:
            return [self._convert(item, read, depth + 1) for item in value]
        if isinstance(value, Mapping) and depth < _MAX_NESTED:
            return {
                self._convert(key, read, depth + 1): self._convert(item, read, depth + 1)
                for key, item in value.items()
            }
        raise self._error(f"{_dotted(read)} holds {a(describe(value))} that a guard cannot read")

    def _error(self, problem: str) -> GuardError:
        return _error(self.text, problem)

    def __repr__(self) -> str:
        return f"Guard({self.text!r})"


@functools.lru_cache(maxsize=_KEPT)
def compile_guard(text: str) -> Guard:
    """Compile a guard; raises GuardError that says what is wrong and what to write."""
    if not isinstance(text, str):
        raise GuardError(f"a guard is text, not {a(describe(text))}", hint="put it in quotes")
    if not text.strip():
        raise GuardError("the guard is empty", hint="write the guard or leave `when` out")
    if len(text) > MAX_GUARD:
        raise GuardError(
            f"a guard holds at most {MAX_GUARD:,} characters; this one has {len(text):,}"
        )
    if not _is_text(text):
        raise GuardError("the guard holds characters that are no text: NUL or a lone surrogate")
    shape = shape_of(text)
    if shape is not None:
        with contextlib.suppress(GuardError):  # what is wrong is told of the guard as written
            return Guard(text, _compiled(shape.text, slots=True), shape)
    return Guard(text, _compiled(text))


@functools.lru_cache(maxsize=_KEPT)
def _compiled(text: str, *, slots: bool = False) -> _Compiled:
    """Compile a guard as it stands, or with ``slots`` the shape of one."""
    try:
        with _LOCK:
            expression = _environment(slots=slots).compile(text)
            kind = expression.return_type().name()
            record = expression.serialize()
    except Exception as error:
        problem, hint = explain(text, str(error))
        raise _error(text, problem, hint) from error
    if "errors" in text:
        _check_count(text, slots=slots)
    if kind not in {"BOOL", "DYN"}:
        hint = "compare it with something, as in ctx.artifacts.listing.count > 0"
        raise _error(text, f"it gives {kind.lower()}, and a guard must give true or false", hint)
    found = [(_read(text, one), one) for one in references(record, "ctx", MAX_TEXT)]
    looks = [
        (read, one.names[len(read) :], one.use) for read, one in found if read[0] == "artifacts"
    ]
    reads = dict.fromkeys(read for read, _ in found)
    return _Compiled(expression, tuple(reads), tuple(looks))


def _read(text: str, reference: Reference) -> Read:
    """Take a reference as far as it names what the run keeps: the node and the facet."""
    names = reference.names
    family = names[0] if names else ""
    if names and family not in _DEPTHS:
        raise _error(text, f"ctx has no field {family!r}", READS)
    if not names or (family != "errors" and len(names) == 1):
        whole = ".".join(("ctx", *names))
        raise _error(text, f"{whole} is read as a whole; a guard must name the node", READS)
    return names[: _DEPTHS[family]]


def _unfit(value: Any, inside: tuple[str, ...], use: Use | None) -> str | None:
    """Say why what a facet holds cannot answer the guard; None where it can."""
    wanted = use if isinstance(use, tuple) else ()
    for name in (*inside, *wanted):
        if not isinstance(value, Mapping):
            break
        if name not in value:
            told = f"names the largest groups only, and {name!r} is not among them"
            return f"{told}: raise max_group_keys" if OTHER in value else None
        value = value[name]
    if isinstance(value, Mapping | list | tuple):
        if use != ABSENT and OTHER in value and not (wanted and set(wanted) <= set(value)):
            return "names only some of what there is: raise max_group_keys"
        if use in {SIZED, ABSENT}:
            return None
        if use == COMPARED:
            return f"is {a(describe(value))}, and is compared with a plain value"
    begins = use in {COMPARED, ABSENT} or any(len(text) < MAX_TEXT for text in wanted)
    found = gap(value, cuts=not begins)
    return f"{found}, and the guard asks for more" if found else None


def _inside(read: Read, reads: tuple[Read, ...]) -> bool:
    """Whether the facet comes along with all of its node's."""
    return any(read[:length] in reads for length in range(1, len(read)))


def _dotted(read: Read) -> str:
    text = "ctx"
    for name in read:
        text += f".{name}" if name.isidentifier() else f'["{name}"]'
    return text


def _is_text(value: str) -> bool:
    """Whether CEL reads it right: it ends a text at NUL, and takes no lone surrogate."""
    return "\0" not in value and (
        value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    )


def _error(text: str, problem: str, hint: str | None = None) -> GuardError:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return GuardError(f"guard {shown!r}: {problem}", hint=hint)


def _check_count(text: str, *, slots: bool) -> None:
    """Refuse to ask the number of errors for its length or its items, which fails only in a run."""
    try:
        with _LOCK:
            _environment(slots=slots, counting=True).compile(text)
    except Exception as error:
        found = _OF_A_NUMBER.search(str(error))
        if found is not None:
            problem = f"ctx.errors is a number, and has no {'size' if found[1] else 'items'}"
            raise _error(text, problem, "write ctx.errors > 0") from error


@functools.cache
def _library() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - a plan without guards needs no CEL

    return cel


@functools.cache
def _environment(*, slots: bool, counting: bool = False) -> Any:
    """Give what CEL knows: ``ctx``, and for shapes the variables that stand for literals.

    ``counting`` adds the type of the count: stricter than a run, it only looks for mistakes.
    """
    types = _library().Type
    variables = {"ctx": types.Map(types.STRING, types.DYN)}
    if slots:
        kinds = {"i": types.INT, "d": types.DOUBLE, "t": types.STRING}
        variables |= {f"{sign}{n}": kind for sign, kind in kinds.items() for n in range(MAX_SLOTS)}
    if counting:
        variables["ctx.errors"] = types.INT
    return _library().NewEnv(variables=variables)
