"""Plans written in Python: calls are added one by one, and handles carry the edges.

::

    with Plan("sweep", objective="What is new?") as p:
        listing = p.add(list_reports, date=p.param("date", str), facets={"n": count("keys[]")})
        fetch = p.map(fetch_report, listing["keys[]"], key=item)

What comes out is the record that a YAML file holds, and the model that is read from it.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.errors import LanguageError, PlanInvalid
from planbench.plan.document import Document, format_json, format_yaml
from planbench.plan.draft import draft
from planbench.plan.edges import edges
from planbench.plan.handles import Handle, NodeHandle, ParamHandle, PathHandle, text_of
from planbench.plan.model import ID, ExecutionPlan, PlanMetadata, PlanNode
from planbench.plan.options import (
    check_meant,
    date_text,
    facets_record,
    guard_text,
    param_type,
    retry_record,
    tool_name,
    written,
)
from planbench.plan.parameters import bind_document
from planbench.plan.paths import compile_path
from planbench.plan.plain import plain
from planbench.plan.short_guards import lengthened, names_of
from planbench.plan.structure import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from planbench.plan.conditions import Condition
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.options import Facets, Retry

_SOURCE: Final = re.compile(r"(?P<id>[A-Za-z][A-Za-z0-9_\-]*)(?:\.(?=[^\[])|(?=\[|$))(?P<path>.*)")
_WORD: Final = re.compile(r"[A-Za-z]\w*")
_NO_ID_SIGN: Final = re.compile(r"[^A-Za-z0-9_\-]+")
_MISSING: Final = object()


class Plan:
    """A plan that is being written.

    Leaving the ``with`` block checks what is there and raises PlanInvalid. Texts may hold
    placeholders as in a file, and ``{{artifacts.x}}`` stands for itself. ``fields`` are
    further fields of the plan or of its metadata, such as ``provenance`` and ``checkpoint``.
    Whatever is given wrong raises LanguageError at once.
    """

    def __init__(
        self,
        name: str,
        objective: str = "",
        *,
        max_parallel_tasks: int | str | None = None,
        execution_timeout: float | str | None = None,
        **fields: Any,
    ) -> None:
        self.name = name
        self.objective = objective
        unknown = [field for field in fields if field not in _FIELDS]
        if unknown:
            raise LanguageError(
                f"a plan has no field {unknown[0]!r}",
                hint=suggestion(unknown[0], _FIELDS) or f"it may have {', '.join(_FIELDS)}",
            )
        given = written(
            max_parallel_tasks=max_parallel_tasks, execution_timeout=execution_timeout, **fields
        )
        metadata = dict(given.pop("metadata", ()))
        metadata |= {name: given.pop(name) for name in PlanMetadata.model_fields if name in given}
        given = self._plain({**given, "metadata": metadata}, "the plan")
        self._params: dict[str, dict[str, Any]] = given.pop("params", {})
        self._fields = {
            name: value for name, value in given.items() if value != {} or name != "metadata"
        }
        self._handles: dict[str, ParamHandle] = {}
        self._nodes: list[dict[str, Any]] = []
        self._facets: dict[str, Any] = {}
        self._ids: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.build()

    def __repr__(self) -> str:
        return f"<Plan {self.name!r}: {len(self._nodes)} nodes>"

    # -- what a plan is made of -------------------------------------------------------

    def param(
        self,
        name: str,
        type: Any = str,  # noqa: A002 - the field's own name
        *,
        default: Any = _MISSING,
        required: bool | None = None,
        description: str | None = None,
        choices: Iterable[Any] | None = None,
    ) -> ParamHandle:
        """Declare a parameter; without a default it is required.

        ``type`` is str, int, float, bool, list, dict, date or datetime, or such a name.
        """
        kind = param_type(name, type)
        spec = written(required=required, description=description)
        if choices is not None:
            spec["choices"] = [date_text(choice) for choice in choices]
        if default is not _MISSING:
            spec["default"] = date_text(default)
        spec = {"type": kind, **self._plain(spec, f"param {name}")}
        if self._params.setdefault(name, spec) != spec:
            raise LanguageError(f"param {name!r} is declared already, and otherwise")
        return self._handles.setdefault(name, ParamHandle(name, kind))

    def add(  # noqa: PLR0913 - each is a field of a node
        self,
        tool: Any,
        /,
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        args: Mapping[str, Any] | None = None,
        store_as: str | None = None,
        when: str | Condition | None = None,
        facets: Facets | None = None,
        max_group_keys: int | ParamHandle | None = None,
        timeout: float | ParamHandle | None = None,
        retry: Retry | None = None,
        after: Iterable[NodeHandle | str] | None = None,
        depends_on: Iterable[NodeHandle | str] | None = None,
        description: str | None = None,
        approve: bool | str | None = None,
        cache: bool | float | ParamHandle | None = None,
        **arguments: Any,
    ) -> NodeHandle:
        """Add one call of a tool: a function, a Tool or a name.

        Further keywords are the tool's arguments; ``args`` holds those whose names are
        options here. What is read becomes a dependency; ``after`` names more of them,
        ``depends_on`` all. ``facets`` are ``{"n": count("rows[]"), "by": groups(...),
        "x": "path"}``, ``retry`` a number of attempts or the fields of a RetryPolicy.
        """
        options = written(
            id=id,
            store_as=store_as,
            when=when,
            facets=facets,
            max_group_keys=max_group_keys,
            timeout=timeout,
            retry=retry,
            after=after,
            depends_on=depends_on,
            description=description,
            approve=approve,
            cache=cache,
        )
        return self._call(tool, options, args, arguments)

    def map(
        self,
        tool: Any,
        source: NodeHandle | PathHandle | str,
        /,
        *,
        as_: str | None = None,
        max_items: int | ParamHandle | None = None,
        max_concurrency: int | ParamHandle | None = None,
        on_item_error: str | ParamHandle | None = None,
        max_failed: int | str | ParamHandle | None = None,
        skip_existing: bool | ParamHandle | None = None,
        **keywords: Any,
    ) -> NodeHandle:
        """Add a fan-out: one call for each item of ``listing["keys[]"]``, or of ``listing``.

        In the arguments ``item`` is the current item and ``index`` its place; ``as_`` gives
        the item another name for placeholders in texts. All else is as in ``add``.
        """
        each = written(
            as_=as_,
            max_items=max_items,
            max_concurrency=max_concurrency,
            on_item_error=on_item_error,
            max_failed=max_failed,
            skip_existing=skip_existing,
        )
        options = written(**{key: keywords.pop(key) for key in OPTIONS & keywords.keys()})
        args = options.pop("args", None)
        return self._call(tool, options, args, keywords, each, *self._source(source))

    def delegate(
        self,
        instruction: str,
        /,
        *,
        tools: Iterable[Any] | None = None,
        **options: Any,
    ) -> NodeHandle:
        """Add a node whose call a small model chooses among ``tools``.

        ``options`` are those of ``add``; the results to look at are given in ``after``.
        """
        record: dict[str, Any] = {"type": "delegate", "instruction": instruction}
        if tools is not None:
            record["tools"] = [tool_name(tool) for tool in tools]
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise LanguageError(f"a delegate node has no option {unknown[0]!r}")
        args = options.pop("args", None) or {}
        return self._put("delegate", record, written(**options), args, None)

    def node(self, node: Mapping[str, Any] | PlanNode, /) -> NodeHandle:
        """Add a node by its fields as a file has them, in the long form or in short."""
        if isinstance(node, PlanNode):
            fields = node.model_dump(by_alias=True, exclude_unset=True, warnings=False)
            fields["depends_on"] = node.depends_on
        else:
            fields = dict(node)
        record = self._plain(fields, "the node", has_item=bool(fields.get("for_each")))
        base = str(record.get("tool") or record.get("type") or "node")
        record["id"] = self._new_id(base, record.get("id"))
        return self._keep({"id": record["id"], **record})

    # -- the plan that comes out ------------------------------------------------------

    def build(self, params: Mapping[str, Any] | None = None) -> ExecutionPlan:
        """Give the plan, checked; with ``params``, also with ``{}``, they are put in.

        Raises PlanInvalid with every issue.
        """
        document = Document(self.to_dict())
        issues: list[ValidationIssue] = []
        if params is not None:
            document, issues = bind_document(document, params)
        made = draft(document)
        if made.plan is None or issues:
            raise PlanInvalid([*issues, *made.issues], name=made.name)
        return made.plan

    def to_dict(self) -> dict[str, Any]:
        """Give what is written so far as JSON values, whether it is a valid plan or not."""
        head = self._plain({"name": self.name, "objective": self.objective}, "the plan")
        params = {"params": self._params} if self._params else {}
        record: dict[str, Any] = plain(
            {**head, **params, **self._fields, "nodes": self._nodes}, "the plan", lambda _: None
        )
        return record

    def to_yaml(self) -> str:
        """Give the plan as YAML text that reads back equal."""
        return format_yaml(self.to_dict())

    def to_json(self) -> str:
        """Give the plan as indented JSON text that reads back equal."""
        return format_json(self.to_dict())

    # -- how it is put down -----------------------------------------------------------

    def _call(
        self,
        tool: Any,
        options: dict[str, Any],
        args: Mapping[str, Any] | None,
        arguments: dict[str, Any],
        each: dict[str, Any] | None = None,
        source: str | None = None,
        select: str | None = None,
    ) -> NodeHandle:
        name = tool_name(tool)
        if args is None:
            check_meant(tool, name, [*options, *(each or {})])
            args = {}
        if each is not None:
            alias = written(**{"as": each.pop("as_", None)})
            each = {"source": source, **written(select=select), **alias, **each}
        both = [key for key in args if key in arguments]
        if both:
            raise LanguageError(f"{name}: the argument {both[0]!r} is given twice")
        return self._put(name, {"tool": name}, options, {**args, **arguments}, each)

    def _put(
        self,
        base: str,
        record: dict[str, Any],
        options: dict[str, Any],
        args: Mapping[str, Any],
        each: dict[str, Any] | None,
    ) -> NodeHandle:
        after, needs = options.pop("after", ()), options.pop("depends_on", None)
        wanted = options.pop("id", None)
        if args:
            record["args"] = args
        if each is not None:
            record["for_each"] = each
        if "when" in options:
            options["when"] = self._guard(options["when"])
        if "facets" in options or "max_group_keys" in options:
            options["facets"] = facets_record(
                options.get("facets"), options.pop("max_group_keys", None)
            )
        if "retry" in options:
            options["retry"] = retry_record(options["retry"])
        record = self._plain({**record, **options}, base, has_item=each is not None)
        record["id"] = self._new_id(base, wanted)
        if needs is not None:
            if after:
                raise LanguageError(f"{base}: give after or depends_on, not both")
            record["depends_on"] = list(map(self._node_id, needs))
        elif found := dict.fromkeys([*edges(record), *map(self._node_id, after)]):
            record["depends_on"] = list(found)
        return self._keep({key: record[key] for key in sorted(record, key=_ORDER.index)})

    def _guard(self, when: Any) -> str:
        """Give the text of a guard, in the long form."""
        text = guard_text(when)
        named = {name: self._facets[name] for name in _WORD.findall(text) if name in self._facets}
        return lengthened(text, names_of(named))

    def _keep(self, record: dict[str, Any]) -> NodeHandle:
        self._nodes.append(record)
        self._facets[record["id"]] = record.get("facets")
        return NodeHandle(self, record["id"])

    def _node_id(self, need: Any) -> str:
        if isinstance(need, NodeHandle) and need.plan is self:
            return need.id
        if isinstance(need, str):
            return need
        problem = "belongs to another plan" if isinstance(need, NodeHandle) else "is no node"
        raise LanguageError(f"{need!r} {problem}", hint="give the handle of a node, or its id")

    def _source(self, source: Any) -> tuple[str, str | None]:
        if isinstance(source, PathHandle):
            return text_of(source.node, self, has_item=False), source.path
        if isinstance(source, NodeHandle):
            return text_of(source, self, has_item=False), None
        match = _SOURCE.fullmatch(source) if isinstance(source, str) else None
        if match is None:
            raise LanguageError(
                f"a fan-out goes over the result of a node, not over {source!r}",
                hint="add a node that gives the list: p.map(tool, listing['keys[]'], ...)",
            )
        if match["path"]:
            compile_path(match["path"])
        return f"{{artifacts.{match['id']}}}", match["path"] or None

    def _new_id(self, base: str, wanted: Any) -> str:
        """Take an id: the one that is wanted, or the tool's name with a number where needed."""
        if wanted is not None:
            if not isinstance(wanted, str) or not ID.fullmatch(wanted):
                raise LanguageError(
                    f"id {wanted!r} must start with a letter and hold only letters, digits, _ and -"
                )
            if wanted in self._ids:
                raise LanguageError(f"id {wanted!r} is taken by a node of this plan")
            self._ids[wanted] = 1
            return wanted
        found = base = base_id(base)
        while found in self._ids:
            self._ids[base] = self._ids.get(base, 1) + 1
            found = f"{base}_{self._ids[base]}"
        self._ids.setdefault(found, 1)
        return found

    def _plain(self, value: Any, place: str, *, has_item: bool = False) -> Any:
        def special(inner: Any) -> str | None:
            if isinstance(inner, Handle):
                return text_of(inner, self, has_item=has_item)
            return None

        return plain(value, place, special)


def base_id(tool: str) -> str:
    """Make an id of a tool's name; the second node of that name gets a number behind it."""
    base = _NO_ID_SIGN.sub("_", tool)
    return base if base[:1].isalpha() else f"node_{base.lstrip('_-')}".rstrip("_-")


_FIELDS: Final = [
    *(name for name in ExecutionPlan.model_fields if name not in {"name", "objective", "nodes"}),
    *PlanMetadata.model_fields,
]
_ORDER: Final = [  # of the fields of a node, as a person reads them
    *("id", "description", "type", "instruction", "tools", "tool", "when", "depends_on"),
    *("for_each", "args", "store_as", "timeout", "retry", "approve", "cache", "facets"),
]
OPTIONS: Final = frozenset(inspect.signature(Plan.add).parameters) - {"self", "tool", "arguments"}
