"""Plans of steps in words: ``{"steps": [{"id", "description", "depends_on"}]}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.importers.imported import Imported, Importing
from planbench.plan.placeholders import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.plan.source import Route

_KNOWN: Final = {"id", "description", "depends_on", "tool", "args"}


def import_steps(
    source: Any,
    *,
    name: str = "steps",
    objective: str = "",
    tools: Iterable[str] | None = None,
) -> Imported:
    """Read steps; one with a ``tool`` is a call, and one in words asks a small model for it.

    ``tools`` are those that the models may choose from. ``source`` is text, a Path, the
    data, or a StepPlan. Raises PlanInvalid that names what is wrong.
    """
    if hasattr(source, "model_dump"):
        source = source.model_dump()
    work = Importing(source)
    steps = work.value
    if isinstance(steps, Mapping):
        work.leave_out_rest("plan", steps, {"steps"}, "steps have no such field")
        if "steps" not in steps:
            work.problem("missing_field", "field 'steps' is missing", ())
        steps = steps.get("steps", [])
    nodes: list[dict[str, Any]] = []
    choice = None if tools is None else list(tools)
    if work.need(list, "steps", steps, ("steps",)):
        known = {str(step.get("id")) for step in steps if isinstance(step, Mapping)}
        for place, step in enumerate(steps):
            path = ("steps", place)
            if work.need(dict, f"step {place + 1}", step, path):
                nodes += _node(work, step, path, known, choice)
    plan = work.plan({"name": name, "objective": objective, "nodes": nodes})
    return Imported(plan, tuple(work.report))


def _node(
    work: Importing, step: dict[str, Any], path: Route, known: set[str], tools: list[str] | None
) -> list[dict[str, Any]]:
    place = f"step {path[1] + 1}" if isinstance(path[1], int) else "step"
    work.leave_out_rest(place, step, _KNOWN, "a node has no such field")
    if not work.need(str, f"{place}: id", step.get("id"), (*path, "id")):
        return []
    node_id = work.node_id(step["id"], path)
    needs = step.get("depends_on") or []
    needs = [needs] if isinstance(needs, str) else needs
    if not work.need(list, f"{place}: depends_on", needs, (*path, "depends_on")):
        needs = []
    found = []
    for need in needs:
        if str(need) in known:
            found.append(work.node_id(str(need), path))
        else:
            message = f"step {step['id']!r} waits for {need!r}, and no step has that id"
            work.problem("unknown_dependency", message, (*path, "depends_on"), node_id=node_id)
    words = step.get("description") or ""
    if not work.need(str, f"{place}: description", words, (*path, "description")):
        words = ""
    record: dict[str, Any] = {"id": node_id, "depends_on": found}
    if step.get("tool") is not None:
        return [{**record, **_call(step), "description": words or None}]
    if not words.strip():
        message = f"step {step['id']!r} has no description: it says what is to be done"
        work.problem("missing_field", message, path, node_id=node_id)
    delegate = {"type": "delegate", "instruction": escape(words)}
    return [{**record, **delegate, **({} if tools is None else {"tools": tools})}]


def _call(step: dict[str, Any]) -> dict[str, Any]:
    """Give the call of a step that names its tool; texts stand for themselves."""
    return {"tool": step["tool"], "args": _escaped(step.get("args") or {}, 0)}


def _escaped(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return escape(value)
    if depth > 100:  # noqa: PLR2004 - the plan's own check says so with the node's id
        return value
    if isinstance(value, dict):
        return {key: _escaped(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner, depth + 1) for inner in value]
    return value
