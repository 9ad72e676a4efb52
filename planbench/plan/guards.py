"""Guards: CEL expressions that decide whether a node runs.

A guard reads ``ctx`` and nothing else: ``ctx.artifacts.<id>.<facet>``,
``ctx.status.<id>`` and ``ctx.errors``. What it reads is taken from the checked
expression, so the index form ``ctx.artifacts["my-id"].count`` is found as well, and
only that is handed to CEL: converting the facets of 1,000 nodes would cost 480 us.

CEL gives an error back as a value that is true, so only a bool that is a bool counts.
This is the one module that knows the CEL library.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from typing import Any, Final

from planbench.errors import GuardError
from planbench.plan.checked_expr import Reference, references
from planbench.plan.guard_hints import READS, explain, reason
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

Read = tuple[str, ...]


class Guard:
    """A compiled guard.

    ``reads`` names what it looks at, in the order of the text: ``("artifacts",
    "listing", "n_reports")``, ``("status", "fetch")`` or ``("errors",)``. ``("artifacts",
    "listing")`` alone stands for all facets of that node, as a map.
    """

    __slots__ = ("_expression", "_taken", "reads", "text")

    def __init__(self, text: str, reads: tuple[Read, ...], expression: Any) -> None:
        self.text = text
        self.reads = reads
        self._taken = tuple(read for read in reads if not _inside(read, reads))
        self._expression = expression

    def evaluate(self, values: Mapping[Read, Any]) -> bool:
        """Answer yes or no from the values of ``reads``; what has no value is left out.

        Raises GuardError with the reason when there is no yes or no: a facet is missing,
        of another type than the guard takes it for, or none that CEL can hold.
        """
        ctx: dict[str, Any] = {}
        for read in self._taken:
            at = ctx
            for name in read[:-1]:
                at = at.setdefault(name, {})
            if read in values:
                at[read[-1]] = self._convert(values[read], read)
        types = _library().Type
        try:
            with _LOCK:
                answer = self._expression.eval(data={"ctx": ctx})
                kind, found = answer.type(), answer.value()
        except Exception as error:
            raise self._error(reason(str(error))) from error
        if kind == types.BOOL and isinstance(found, bool):
            return found
        if kind != types.ERROR:
            raise self._error(f"it gave {a(describe(found))}, and a guard must give true or false")
        missing = [_dotted(read) for read in self.reads if read not in values]
        if missing and str(found).startswith("NOT_FOUND"):
            raise self._error(f"{' and '.join(missing)} has no value")
        raise self._error(reason(str(found)))

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


@functools.lru_cache(maxsize=4096)
def compile_guard(text: str) -> Guard:
    """Compile a guard; raises GuardError that says what is wrong and what to write."""
    if not isinstance(text, str):
        raise GuardError(f"a guard is text, not {a(describe(text))}", hint="put it in quotes")
    if not text.strip():
        raise GuardError("the guard is empty", hint="without when: the node always runs")
    if len(text) > MAX_GUARD:
        raise GuardError(
            f"a guard holds at most {MAX_GUARD:,} characters; this one has {len(text):,}"
        )
    if not _is_text(text):
        raise GuardError("the guard holds characters that are no text: NUL or a lone surrogate")
    try:
        with _LOCK:
            expression = _environment().compile(text)
            kind = expression.return_type().name()
            record = expression.serialize()
    except Exception as error:
        problem, hint = explain(text, str(error))
        raise _error(text, problem, hint) from error
    if "errors" in text:
        _check_count(text)
    if kind not in {"BOOL", "DYN"}:
        hint = "compare it with something, as in ctx.artifacts.listing.count > 0"
        raise _error(text, f"it gives {kind.lower()}, and a guard must give true or false", hint)
    reads = dict.fromkeys(_read(text, reference) for reference in references(record, "ctx"))
    return Guard(text, tuple(reads), expression)


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


def _check_count(text: str) -> None:
    """Refuse to ask the number of errors for its length or its items, which fails only in a run."""
    try:
        with _LOCK:
            _counting_environment().compile(text)
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
def _environment() -> Any:
    types = _library().Type
    return _library().NewEnv(variables={"ctx": types.Map(types.STRING, types.DYN)})


@functools.cache
def _counting_environment() -> Any:
    """Know the type of the count too; it is stricter than a run, so only used to look for mistakes."""
    types = _library().Type
    return _library().NewEnv(
        variables={"ctx": types.Map(types.STRING, types.DYN), "ctx.errors": types.INT}
    )
