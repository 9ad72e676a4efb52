"""The plan as data: what a planner or a person writes, and what a run gives back.

All models are frozen and refuse unknown fields. Every file that is valid for the
reference's ``ExecutionPlan`` is valid here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from planbench.plan.structure import StructureProblem, structure_problems

if TYPE_CHECKING:
    import graphviz
    import networkx as nx

ID_PATTERN: Final = r"[A-Za-z][A-Za-z0-9_\-]*"
ID: Final = re.compile(ID_PATTERN)
MAX_KEY: Final = 500
PARAM: Final = re.compile(r"\{params\.([A-Za-z_][A-Za-z0-9_]*)\}")
SOURCE: Final = re.compile(r"\{artifacts\.(" + ID_PATTERN + r")\}")


def _leave_parameter(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """A parameter without a value yet stands where the number will stand."""
    if isinstance(value, str) and PARAM.fullmatch(value):
        return value
    return handler(value)


Later = WrapValidator(_leave_parameter)


class PlanModel(BaseModel):
    """The base of the language's models: frozen, and exact about its fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants"
    )


class RetryPolicy(PlanModel):
    """How often a call is tried; the wait before try ``n + 1`` is ``backoff_seconds * n``."""

    max_attempts: Annotated[int, Field(ge=1, le=10), Later] = 1
    backoff_seconds: Annotated[float, Field(ge=0, le=60), Later] = 0.0


class FacetSpec(PlanModel):
    """The small facts taken from a result: all that guards, manifests and models see."""

    paths: dict[str, str] = Field(default_factory=dict)
    counts: dict[str, str] = Field(default_factory=dict)
    group_counts: dict[str, str] = Field(default_factory=dict)
    max_group_keys: Annotated[int, Field(ge=1, le=200), Later] = 25

    def names(self) -> list[str]:
        """Name every facet, in the order written."""
        return [*self.paths, *self.counts, *self.group_counts]


class ForEach(PlanModel):
    """One call of the node's tool per item of an artifact.

    More than ``max_items`` items is an error, never a silent cut. ``max_failed`` is
    a number of items or a share such as ``"5%"``.
    """

    source: str
    select: str | None = None
    alias: str = Field(default="item", alias="as", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    max_items: Annotated[int, Field(ge=1, le=100_000), Later] = 1000
    max_concurrency: Annotated[int, Field(ge=1, le=64), Later] = 8
    on_item_error: Annotated[Literal["collect", "fail", "skip"], Later] = "collect"
    max_failed: Annotated[int, Field(ge=0)] | str | None = None
    skip_existing: Annotated[bool, Later] = True

    @field_validator("source")
    @classmethod
    def _source_is_artifact(cls, value: str) -> str:
        if not SOURCE.fullmatch(value.strip()):
            raise PydanticCustomError(
                "bad_field",
                "for_each.source must be exactly one artifact, as {example}, not {value}",
                {"value": repr(value), "example": '"{artifacts.listing}"'},
            )
        return value.strip()

    @field_validator("alias")
    @classmethod
    def _alias_is_free(cls, value: str) -> str:
        if value in {"params", "nodes", "artifacts", "env", "index", "ctx"}:
            raise PydanticCustomError(
                "bad_field",
                "for_each.as cannot be {value}: that name is taken",
                {"value": repr(value)},
            )
        return value

    @field_validator("max_failed")
    @classmethod
    def _max_failed_is_share(cls, value: int | str | None) -> int | str | None:
        if (
            isinstance(value, str)
            and not re.fullmatch(r"(100|\d{1,2})(\.\d+)?%", value)
            and not PARAM.fullmatch(value)
        ):
            raise PydanticCustomError(
                "bad_field",
                "for_each.max_failed must be a number of items or a share such as '5%', not {value}",
                {"value": repr(value)},
            )
        return value

    @property
    def source_node(self) -> str:
        """The id of the node whose artifact is fanned out."""
        match = SOURCE.fullmatch(self.source)
        if match is None:
            msg = f"for_each.source {self.source!r} names no artifact"
            raise ValueError(msg)
        return match.group(1)


class PlanNode(PlanModel):
    """One call of a tool, or one call per item, and what it waits for."""

    id: str
    type: Literal["tool", "delegate"] = "tool"
    tool: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    store_as: str = ""
    depends_on: list[str] = Field(default_factory=list)
    when: str | None = None
    for_each: ForEach | None = None
    facets: FacetSpec = Field(default_factory=FacetSpec)
    timeout: Annotated[float | None, Field(gt=0), Later] = None
    retry: RetryPolicy = Field(default_factory=RetryPolicy)
    description: str | None = None
    approve: bool | str | None = None
    cache: Annotated[bool | Annotated[float, Field(gt=0)] | None, Later] = None
    instruction: str | None = None
    tools: list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "store_as" not in value:
            written = value.get("id")
            if isinstance(written, str) and ID.fullmatch(written):
                suffix = ".{index}" if value.get("for_each") is not None else ""
                return {**value, "store_as": written + suffix}
        return value

    @field_validator("id")
    @classmethod
    def _id_is_plain(cls, value: str) -> str:
        if not ID.fullmatch(value):
            raise PydanticCustomError(
                "bad_id",
                "id {value} must start with a letter and hold only letters, digits, _ and -",
                {"value": repr(value)},
            )
        return value

    @field_validator("store_as")
    @classmethod
    def _key_is_text(cls, value: str) -> str:
        if not value.strip() or len(value) > MAX_KEY or not value.isprintable():
            raise PydanticCustomError(
                "bad_field",
                "store_as must be 1 to {most} printable characters, not {value}",
                {"value": repr(value[:80]), "most": MAX_KEY},
            )
        return value

    @model_validator(mode="after")
    def _fields_fit_type(self) -> Self:
        problems = type_problems(self)
        if problems:
            raise PydanticCustomError(
                problems[0].code,
                "{text}",
                {"text": "; ".join(p.message for p in problems), "problems": problems},
            )
        return self


def type_problems(node: PlanNode) -> list[StructureProblem]:
    """Find the fields that a node of its type needs and lacks, or has and cannot have."""
    found: list[tuple[str, str, str]] = []
    if node.type == "tool":
        if not node.tool:
            found.append(("missing_field", "tool", "field 'tool' is missing"))
        found += [
            ("bad_field", name, f"{name!r} belongs to a node with type: delegate")
            for name in ("instruction", "tools")
            if getattr(node, name) is not None
        ]
    else:
        if not node.instruction:
            text = "field 'instruction' is missing: a delegate node needs one"
            found.append(("missing_field", "instruction", text))
        if node.tool:
            text = "a delegate node chooses its tool when it runs: write 'tools', not 'tool'"
            found.append(("bad_field", "tool", text))
    return [StructureProblem(code, text, node.id, (field,)) for code, field, text in found]


class PlanMetadata(PlanModel):
    """How the whole plan runs."""

    max_parallel_tasks: Annotated[int, Field(ge=1, le=128), Later] = 10
    execution_timeout: Annotated[float | None, Field(gt=0), Later] = None
    checkpoint: Annotated[bool, Later] = True
    durable: Annotated[bool, Later] = False


ParamType = Literal["str", "int", "float", "bool", "date", "datetime", "list", "dict"]


class ParamSpec(PlanModel):
    """A declared parameter; without a default it is required."""

    type: ParamType = "str"
    default: Any = None
    required: bool | None = None
    description: str | None = None
    choices: list[Any] | None = None

    @property
    def is_required(self) -> bool:
        """Whether a value must be given."""
        if self.required is not None:
            return self.required
        return "default" not in self.model_fields_set


class Provenance(PlanModel):
    """Where a plan came from: the request and the model that answered it."""

    objective: str | None = None
    model: str | None = None


class ToolRequirement(PlanModel):
    """Where a tool of the plan lives, for a colleague who does not have it."""

    module: str
    package: str | None = None
    version: str | None = None
    fingerprint: str | None = None


class ExecutionPlan(PlanModel):
    """A named DAG of tool calls, checked for structure when it is made.

    Raises pydantic's ValidationError with every problem in it. Whether the tools
    exist and take the arguments is another question: ``check_plan`` answers it.
    """

    name: str = Field(min_length=1, max_length=200)
    objective: str
    nodes: list[PlanNode] = Field(min_length=1)
    metadata: PlanMetadata = Field(default_factory=PlanMetadata)
    params: dict[str, ParamSpec] = Field(default_factory=dict)
    requires: dict[str, ToolRequirement] = Field(default_factory=dict)
    provenance: Provenance | None = None

    @model_validator(mode="after")
    def _structure(self) -> Self:
        problems = structure_problems(self.nodes)
        errors = [problem for problem in problems if problem.severity == "error"]
        if errors:
            raise PydanticCustomError(
                "plan_structure",
                "{text}",
                {"text": "; ".join(_said(problem) for problem in errors), "problems": errors},
            )
        return self

    def node(self, node_id: str) -> PlanNode:
        """Give the node of that id; raises KeyError."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)

    def to_dict(self, *, compact: bool = False) -> dict[str, Any]:
        """Give the plan as JSON values; ``compact`` leaves out what was never written."""
        record: dict[str, Any] = self.model_dump(
            mode="json", by_alias=True, warnings=False, exclude_unset=compact
        )
        record["nodes"] = [
            _with_needs(written, node)
            for written, node in zip(record["nodes"], self.nodes, strict=True)
        ]
        return record

    def to_yaml(self) -> str:
        """Give the plan as YAML text that reads back equal."""
        from planbench.plan.document import format_yaml  # noqa: PLC0415 - the reader imports the model

        return format_yaml(self.to_dict(compact=True))

    def to_json(self) -> str:
        """Give the plan as indented JSON text that reads back equal."""
        from planbench.plan.document import format_json  # noqa: PLC0415 - the reader imports the model

        return format_json(self.to_dict(compact=True))

    def to_python(self) -> str:
        """Give the builder code that makes an equal plan."""
        from planbench.plan.python_code import to_python  # noqa: PLC0415 - it imports the model

        return to_python(self)

    def to_script(self) -> str:
        """Give a plain asyncio script that calls the plan's tools without planbench."""
        from planbench.plan.script import to_script  # noqa: PLC0415 - as above

        return to_script(self)

    def to_networkx(self) -> nx.DiGraph[str]:
        """Give the plan as a networkx graph."""
        from planbench.plan.exports import to_networkx  # noqa: PLC0415 - as above

        return to_networkx(self)

    def to_graphviz(self) -> graphviz.Digraph:
        """Give the plan as a graph of the graphviz package."""
        from planbench.plan.exports import to_graphviz  # noqa: PLC0415 - as above

        return to_graphviz(self)

    def to_mermaid(self) -> str:
        """Give the plan as a Mermaid flowchart."""
        from planbench.plan.exports import to_mermaid  # noqa: PLC0415 - as above

        return to_mermaid(self)


def _said(problem: StructureProblem) -> str:
    return f"node {problem.node_id!r}: {problem.message}" if problem.node_id else problem.message


def _with_needs(written: dict[str, Any], node: PlanNode) -> dict[str, Any]:
    """Write depends_on beside a guard: left out, it would be inferred from the guard."""
    if node.when is None or "depends_on" in written:
        return written
    whole = {**written, "depends_on": list(node.depends_on)}
    return {field: whole[field] for field in PlanNode.model_fields if field in whole}
