"""The working memory as tools of an agent: bounded answers, never a payload that was not asked for."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from planbench.errors import ArtifactNotFound, ArtifactRefused, ConfigurationError, PlanbenchError
from planbench.memory.compute import compute
from planbench.memory.entries import ENTRY_TYPES, EntryInfo, entry_type_of, shape_of
from planbench.memory.rehydrate import OverCeilingError, check_json, plain_json
from planbench.memory.selection import is_pattern, matches
from planbench.memory.sizes import format_bytes, measure
from planbench.memory.specs import read_spec
from planbench.memory.summaries import MAX_SUMMARY, clipped, summarize, summarize_items
from planbench.memory.working_memory import WorkingMemory
from planbench.plan.structure import suggestion
from planbench.tools.definition import tool
from planbench.tools.result import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planbench.memory.entries import Entry

LISTED: Final = 100
"""Entries that one answer lists."""
MAX_KEY: Final = 500
MAX_DESCRIPTION: Final = 200
MAX_ERROR: Final = 1_000
PREVIEW: Final = 500


class Answers(Protocol):
    """What an agent keeps its answers in: a dict, a WorkingMemory, anything with these two."""

    def keys(self) -> Iterable[str]:
        """Name the answers."""
        ...

    def __getitem__(self, name: str, /) -> Any:
        """Give the answer of that name."""
        ...


class WorkingMemoryToolkit:
    """Tools with which an agent reads, makes and drops what is in a working memory.

    Every answer is a ToolResult whose size does not depend on that of the values; only
    ``wm_get_result(include_raw=True)`` gives a body, as JSON of at most
    ``max_rehydrate_bytes``. What goes wrong is an answer too, with ``error_code``
    and near keys. Without ``memory`` the toolkit makes one, to be had as ``.memory``.

    ``answer_memory`` holds the agent's own answers, a dict or anything with ``keys()``
    and ``[name]``: they are found and read as well, and never changed here.
    """

    def __init__(
        self,
        memory: WorkingMemory | None = None,
        answer_memory: Answers | None = None,
        max_rehydrate_bytes: int = 2_000_000,
    ) -> None:
        if memory is not None and not isinstance(memory, WorkingMemory):
            raise ConfigurationError(
                f"memory is a WorkingMemory, not {type(memory).__name__}",
                hint="leave it out, or write: WorkingMemoryToolkit(WorkingMemory())",
            )
        if type(max_rehydrate_bytes) is not int or max_rehydrate_bytes < 0:
            raise ConfigurationError(
                f"max_rehydrate_bytes is a whole number of bytes, not {max_rehydrate_bytes!r}"
            )
        if answer_memory is not None:
            _check_answers(answer_memory)
        self.memory = WorkingMemory() if memory is None else memory
        self.answer_memory = answer_memory
        self.max_rehydrate_bytes = max_rehydrate_bytes
        self._numbers = count(1)

    def inject_answer_memory(self, memory: Answers) -> bool:
        """Take an agent's answers where none were given before; tells whether they were taken."""
        if self.answer_memory is not None:
            return False
        _check_answers(memory)
        self.answer_memory = memory
        return True

    # -- the tools --------------------------------------------------------------------

    async def wm_list(self, pattern: str = "*") -> ToolResult:
        """List what is stored: keys, kinds and sizes, not the values.

        `pattern` is a key, the id of a node, or a pattern such as `fetch.*`.
        """
        return await self._answer(lambda: self._list(pattern))

    async def wm_get_result(
        self, key: str, max_length: int = PREVIEW, include_raw: bool = False
    ) -> ToolResult:
        """Describe one result in at most `max_length` characters; a node id means all its items.

        With `include_raw` the value itself is given as JSON in `data`, if it is small enough.
        """
        return await self._answer(lambda: self._get(key, max_length, include_raw), aside=True)

    async def wm_search(self, query: str, entry_type: str | None = None) -> ToolResult:
        """Find results whose key, node, tool or description holds a text.

        `entry_type` is one of dataframe, text, json, message, binary, object.
        """
        return await self._answer(lambda: self._search(query, entry_type))

    @tool(effects="write")
    async def wm_store_result(self, key: str, data: Any, description: str = "") -> ToolResult:
        """Store JSON data under a key; a key that is taken gets a new version."""
        answer = await self._answer(lambda: self._store(key, data, description))
        await self.memory.make_room()
        return answer

    @tool(effects="destructive")
    async def wm_drop(self, key: str) -> ToolResult:
        """Forget a key with all its versions, or all items of a node."""
        return await self._answer(lambda: self._drop(key))

    @tool(effects="write")
    async def wm_compute(self, spec: dict[str, Any]) -> ToolResult:
        """Make a table of stored results, store it, and describe it.

        `spec`: `source` (a key, node id, pattern, or list of keys), `select` (a path such as
        `findings[]`), `ops` (applied in order), `store_as` (a key), and of several entries
        `label` (the column with the key, "key" unless given) and `item` (columns: name to path).
        Ops: {"op": "filter", "column", "cmp": "==" "!=" "<" "<=" ">" ">=" "in" "contains" "isnull" or "notnull", "value"},
        {"op": "select", "columns"}, {"op": "rename", "columns": {old: new}},
        {"op": "sort", "by", "ascending"}, {"op": "head", "n"},
        {"op": "group", "by", "agg": {column: count|sum|mean|min|max|nunique|first}} giving
        columns such as `score_mean`, {"op": "value_counts", "column", "n"},
        {"op": "join", "with": key, "on", "how": inner|left|right|outer, "select"},
        {"op": "dedupe", "columns"}.
        """
        made: list[Any] = []

        def work() -> dict[str, Any]:
            read = read_spec(spec)
            made.extend((read, compute(self.memory, read)))
            return {}

        answer = await self._answer(work, aside=True)
        if not answer.success:
            return answer
        answer = await self._answer(lambda: self._computed(*made))
        made.clear()
        await self.memory.make_room()
        return answer

    # -- how they are answered ----------------------------------------------------------

    async def _answer(
        self, work: Callable[[], dict[str, Any]], *, aside: bool = False
    ) -> ToolResult:
        """Answer with what the work gives, or with its error; ``aside`` keeps the loop free."""
        try:
            return ToolResult.ok(await asyncio.to_thread(work) if aside else work())
        except ArtifactNotFound as error:
            near = [clipped(key, MAX_KEY) for key in error.near]
            return _failed(error, {"near": near})
        except _TooLargeError as error:
            return _failed(error, error.sizes)
        except PlanbenchError as error:
            return _failed(error, None)
        except Exception as error:  # noqa: BLE001 - the code of a value's own class may raise anything
            refused = ArtifactRefused(
                f"a value raised {type(error).__name__} when it was looked at",
                hint="the tool that gave it can return plain data: a dict, list, text, numbers, a DataFrame",
            )
            return _failed(refused, None)

    def _list(self, pattern: str) -> dict[str, Any]:
        memory = self.memory
        if is_pattern(pattern):
            found = [memory.peek(key) for key in memory.keys(pattern)]
            entries = [entry for entry in found if entry is not None]
        else:
            entries = memory.entries(pattern)
            if not entries and pattern not in memory and not self._names(pattern):
                raise self._missing(pattern)
        nodes: dict[str, int] = {}
        for entry in entries:
            if entry.index is not None and entry.node is not None:
                nodes[entry.node] = nodes.get(entry.node, 0) + 1
        return {
            "total": len(entries),
            "bytes": sum(entry.nbytes for entry in entries),
            "entries": [_row(entry.info()) for entry in entries[:LISTED]],
            "fan_outs": dict(list(nodes.items())[:LISTED]),
            "answers": [clipped(name, MAX_KEY) for name in self._names(pattern)[:LISTED]],
        }

    def _get(self, key: str, max_length: int, include_raw: bool) -> dict[str, Any]:
        limit = min(max(max_length, 1), MAX_SUMMARY)
        entries = [] if is_pattern(key) and key not in self.memory else self.memory.entries(key)
        if not entries and key not in self.memory:
            return self._get_answer(key, limit, include_raw)
        info = self.memory.info(key)
        body = _row(info)
        body["artifact_id"] = info.artifact_id
        if info.artifact_id:
            body["summary"] = summarize(entries[0].value, limit)
        else:
            few = ((entry.key, entry.value) for entry in entries)
            body["summary"] = summarize_items(few, len(entries), limit)
        if include_raw:
            size = sum(entry.nbytes for entry in entries)
            self._allow(key, size)
            values = [entry.value for entry in entries]
            body["data"] = self._raw(key, values[0] if info.artifact_id else values, size)
        return body

    def _get_answer(self, key: str, limit: int, include_raw: bool) -> dict[str, Any]:
        answers = self.answer_memory
        if answers is None or key not in self._names(key):
            raise self._missing(key)
        value = answers[key]
        size = measure(value, None)
        rows, columns = shape_of(value)
        body: dict[str, Any] = {
            "key": clipped(key, MAX_KEY),
            "source": "answers",
            "entry_type": entry_type_of(value),
            "bytes": size,
            "rows": rows,
            "columns": columns,
            "summary": summarize(value, limit),
        }
        if include_raw:
            self._allow(key, size)
            body["data"] = self._raw(key, value, size)
        return body

    def _allow(self, key: str, size: int) -> None:
        if size > self.max_rehydrate_bytes:
            raise _TooLargeError(key, size, self.max_rehydrate_bytes)

    def _raw(self, key: str, value: Any, size: int) -> Any:
        try:
            return plain_json(value, self.max_rehydrate_bytes)
        except OverCeilingError:
            raise _TooLargeError(key, size, self.max_rehydrate_bytes, as_json=True) from None

    def _search(self, query: str, entry_type: str | None) -> dict[str, Any]:
        if entry_type is not None and entry_type not in ENTRY_TYPES:
            near = suggestion(entry_type, ENTRY_TYPES)
            raise ConfigurationError(
                f"there is no entry type {clipped(entry_type, MAX_KEY)!r}",
                hint=near or f"write one of {', '.join(ENTRY_TYPES)}",
            )
        found = self.memory.search(query, entry_type)  # type: ignore[arg-type]  # one of them, as just seen
        rows = [_row(info) for info in found[:LISTED]]
        total = len(found)
        answers = self.answer_memory
        wanted = query.casefold()
        for name in self._names("*"):
            if answers is None or wanted not in name.casefold():
                continue
            kind = entry_type_of(answers[name])
            if entry_type in (None, kind):
                total += 1
                if len(rows) < LISTED:
                    rows.append(
                        {"key": clipped(name, MAX_KEY), "source": "answers", "entry_type": kind}
                    )
        return {"total": total, "entries": rows}

    def _store(self, key: str, data: Any, description: str) -> dict[str, Any]:
        _check_key(key)
        check_json(data)
        memory = self.memory
        entry = memory.put_item(key, data, None, "wm_store_result", None, measure(data, None))
        entry.description = clipped(description, 10 * MAX_DESCRIPTION)
        return _stored(entry)

    def _drop(self, key: str) -> dict[str, Any]:
        keys = self.memory.keys(key) if not is_pattern(key) or key in self.memory else []
        if not keys and key not in self.memory:
            raise self._missing(key)
        before = self.memory.nbytes
        self.memory.drop(key)
        return {
            "dropped": [clipped(one, MAX_KEY) for one in keys[:LISTED]],
            "total": len(keys),
            "bytes": before - self.memory.nbytes,
        }

    def _computed(self, spec: Any, frame: Any) -> dict[str, Any]:
        memory = self.memory
        key = spec.store_as
        while key is None or (spec.store_as is None and key in memory):
            key = f"computed.{next(self._numbers)}"
        size = measure(frame, None)
        entry = memory.put_item(key, frame, None, "wm_compute", None, size)
        entry.description = spec.description or f"computed from {_source_text(spec.source)}"
        names = [clipped(str(name), MAX_DESCRIPTION) for name in frame.columns[:LISTED]]
        return {**_stored(entry), "column_names": names, "summary": summarize(frame, PREVIEW)}

    def _names(self, pattern: str) -> list[str]:
        """Name the answers that fit; an agent's own store may hold other things than text."""
        if self.answer_memory is None:
            return []
        names: list[Any] = list(self.answer_memory.keys())
        return [name for name in names if isinstance(name, str) and matches(name, pattern)]

    def _missing(self, key: str) -> ArtifactNotFound:
        wanted = key.casefold()
        answers = [name for name in self._names("*") if wanted in name.casefold()]
        near = list(dict.fromkeys([*self.memory.not_found(key).near, *answers]))[:5]
        hint = None if near else "wm_list shows what is stored"
        return ArtifactNotFound(clipped(key, MAX_KEY), near, hint=hint)


class _TooLargeError(PlanbenchError):
    """Raised when a body is larger than an agent may read; nothing of it is given."""

    code = "too_large"

    def __init__(self, key: str, size: int, ceiling: int, *, as_json: bool = False) -> None:
        what = "as JSON would take more than" if as_json else f"holds {format_bytes(size)}, over"
        super().__init__(
            f"{clipped(key, MAX_KEY)!r} {what} max_rehydrate_bytes, which is {format_bytes(ceiling)}",
            hint="read its summary, or make less of it with wm_compute: select, filter, head, group",
        )
        self.sizes = {"bytes": size, "max_rehydrate_bytes": ceiling}


def _failed(error: PlanbenchError, result: dict[str, Any] | None) -> ToolResult:
    return ToolResult.failed(clipped(str(error), MAX_ERROR), error.code, result)


def _row(info: EntryInfo) -> dict[str, Any]:
    """Give what is known about an entry, without its value, in a bounded form."""
    return {
        "key": clipped(info.key, MAX_KEY),
        "entry_type": info.entry_type,
        "bytes": info.nbytes,
        "rows": info.rows,
        "columns": info.columns,
        "version": info.version,
        "node": info.node and clipped(info.node, MAX_KEY),
        "tool": info.tool and clipped(info.tool, MAX_KEY),
        "description": clipped(info.description, MAX_DESCRIPTION),
    }


def _stored(entry: Entry) -> dict[str, Any]:
    return {**_row(entry.info()), "artifact_id": entry.artifact_id}


def _source_text(source: str | list[str]) -> str:
    names = [source] if isinstance(source, str) else source
    more = "" if len(names) <= 3 else f" and {len(names) - 3} more"  # noqa: PLR2004 - enough to know it by
    return clipped(", ".join(names[:3]) + more, MAX_DESCRIPTION)


def _check_key(key: str) -> None:
    if not 0 < len(key) <= MAX_KEY:
        raise ArtifactRefused(f"a key has 1 to {MAX_KEY} characters, and this one {len(key):,}")


def _check_answers(answers: Any) -> None:
    if not (hasattr(answers, "keys") and hasattr(type(answers), "__getitem__")):
        raise ConfigurationError(
            f"answer_memory has keys() and [name], and {type(answers).__name__} has not",
            hint="give a dict of the answers by name, or a WorkingMemory",
        )
