"""Nodes as they are shown: how each is drawn, and all that there is to know about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError

from planbench.errors import ArtifactUnavailable
from planbench.memory.frames import to_frame
from planbench.plan.document import format_yaml
from planbench.plan.placeholders import as_text
from planbench.plan.shapes import describe
from planbench.render.view import GraphView, NodeView, graph_view
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from planbench.plan.model import ExecutionPlan, PlanNode
    from planbench.runtime.masking import Masking
    from planbench.runtime.run import Run
    from planbench.runtime.standing import NodeState

SHOWN_KEYS: Final = 50
SHOWN_ROWS: Final = 20
SHOWN_COLUMNS: Final = 20
SHOWN_TEXT: Final = 200


def kind_of(node: PlanNode) -> str:
    """Say how a node is drawn."""
    if node.type == "delegate":
        return "delegate"
    return "fan_out" if node.for_each is not None else "tool"


def run_view(
    run: Run,
    inferred: Mapping[str, Collection[str]] | None = None,
    plan: ExecutionPlan | None = None,
) -> GraphView:
    """Give the graph of a run with the states of its nodes; ``inferred`` as a report has it.

    ``plan`` stands for the plan of the run, where that is not to be shown as it is.
    """
    ended = run.finished
    plan = run.plan if plan is None else plan
    return graph_view(
        plan,
        {node.id: node_view(node, run.state.nodes[node.id], ended=ended) for node in plan.nodes},
        inferred,
    )


def node_view(node: PlanNode, state: NodeState, *, ended: bool = False) -> NodeView:
    """Give one node as it stands in a run; what never started in a run that ended is idle."""
    note = state.reason or (state.errors[0] if state.errors else None)
    status = "idle" if ended and state.status == "waiting" else state.status
    return NodeView(
        id=node.id,
        title=node.id,
        kind=kind_of(node),
        status=status,
        done=None if state.total is None else state.done + state.failed,
        total=state.total,
        seconds=state.seconds,
        nbytes=state.nbytes or None,
        note=note,
        reused=state.reused,
        failed=state.failed,
        tool=node.tool or (f"delegate: {state.chosen}" if state.chosen else ""),
    )


def node_details(node: PlanNode, run: Run | None = None, *, table: bool = True) -> dict[str, Any]:
    """Give all that is known about a node, as JSON values: as it is written, and as it stands in a run.

    With ``table`` that is what ``preview`` gives; a body that cannot be read is one of the warnings.
    """
    state = None if run is None else run.state.nodes[node.id]
    found = {**_written(node), "issues": [], **_stands(state), "table": None}
    if table and run is not None and state is not None and (state.store_key or state.item_keys):
        try:
            found["table"] = preview(run, node.id)
        except ArtifactUnavailable as error:
            found["warnings"] = [*found["warnings"], error.message]
    return found


def _written(node: PlanNode) -> dict[str, Any]:
    try:
        record = node.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    except (PydanticSerializationError, UnicodeDecodeError):  # a parameter that is no JSON value
        told = {"args": {name: f"({describe(value)})" for name, value in node.args.items()}}
        node = node.model_copy(update=told)
        record = node.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return {
        "id": node.id,
        "tool": node.tool,
        "type": node.type,
        "description": node.description,
        "args_text": format_yaml(record.get("args", {})) if node.args else "",
        "when": node.when,
        "depends_on": list(node.depends_on),
        "for_each": record.get("for_each"),
        "retry": record.get("retry"),
        "timeout": node.timeout,
        "store_as": node.store_as,
    }


def _stands(state: NodeState | None) -> dict[str, Any]:
    if state is None:
        return {
            "status": "idle",
            "reason": None,
            "facets": {},
            "errors": [],
            "output": "",
            "warnings": [],
            "seconds": None,
            "nbytes": 0,
            "done": 0,
            "total": None,
            "failed": 0,
            "reused": 0,
            "keys": [],
        }
    return {
        "status": state.status,
        "reason": state.reason,
        "facets": {**state.facets, **{f"noted {n}": v for n, v in state.notes.items()}},
        "errors": list(state.errors),
        "output": state.output,
        "warnings": list(state.warnings),
        "seconds": state.seconds,
        "nbytes": state.nbytes,
        "done": state.done,
        "total": state.total,
        "failed": state.failed,
        "reused": state.reused,
        "keys": state.keys[:SHOWN_KEYS],
    }


def preview(run: Run, node_id: str) -> dict[str, Any] | None:
    """Give the first rows of what a node stored, as texts without secrets; None where it has nothing here.

    Keys: columns, rows, n_rows. Raises ArtifactUnavailable where a body cannot be read.
    """
    if node_id not in run.bodies:
        return None
    value = run.value(node_id)
    if isinstance(value, list):
        frame, rows = to_frame(value[:SHOWN_ROWS]), len(value)
    else:
        frame = to_frame(value)
        rows = len(frame)
    shown = frame.iloc[:SHOWN_ROWS, :SHOWN_COLUMNS]
    secrets = run.secrets
    return {
        "columns": [cell_text(column, secrets) for column in shown.columns],
        "rows": [
            [cell_text(cell, secrets) for cell in row]
            for row in shown.itertuples(index=False, name=None)
        ],
        "n_rows": rows,
    }


def cell_text(value: Any, secrets: Masking | None, limit: int = SHOWN_TEXT) -> str:
    """Write a cell as text, whatever it is, without secrets; what cannot be written is described."""
    try:
        text = as_text(value)
    except Exception:  # noqa: BLE001 - objects of users may raise anything when they are asked for words
        text = f"({describe(value)} that cannot be written)"
    head = text[:limit] if secrets is None else secrets.head(text, limit)
    return as_utf8(head)
