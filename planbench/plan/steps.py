"""A plan of steps: what is to be done and in which order, for algorithms that choose the calls later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from planbench.plan.fields import field_problems, unknown_field
from planbench.plan.graph import cycles
from planbench.plan.model import PlanModel
from planbench.plan.source import shown
from planbench.plan.structure import StructureProblem, Suggestions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from planbench.plan.document import Document
    from planbench.plan.fields import FieldProblem
    from planbench.plan.issues import ValidationIssue
    from planbench.plan.source import Route

_MAX_ID: Final = 200


class Step(PlanModel):
    """One thing to do, in words, and the steps whose results it needs."""

    id: str
    description: str
    depends_on: list[str] = Field(default_factory=list)

    @field_validator("id")
    @classmethod
    def _id_is_plain(cls, value: str) -> str:
        if not value or value != value.strip() or len(value) > _MAX_ID or not value.isprintable():
            raise PydanticCustomError(
                "bad_id",
                "id {value} must be 1 to {most} printable characters, without spaces around them",
                {"value": shown(value), "most": _MAX_ID},
            )
        return value


class StepPlan(PlanModel):
    """Steps that form a graph, checked when it is made.

    Raises pydantic's ValidationError with every problem in it.
    """

    steps: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _structure(self) -> Self:
        problems = step_problems(self.steps)
        if problems:
            text = "; ".join(f"step {p.node_id!r}: {p.message}" for p in problems)
            raise PydanticCustomError(
                "plan_structure", "{text}", {"text": text, "problems": problems}
            )
        return self


def step_problems(steps: Sequence[Step], known: Collection[str] = ()) -> list[StructureProblem]:
    """Find everything that is wrong between steps: ids, dependencies and cycles, all at once.

    ``known`` names steps of an earlier plan that these may wait for.
    """
    found: list[StructureProblem] = []
    first: dict[str, int] = {}
    for position, step in enumerate(steps):
        earlier = first.setdefault(step.id, position)
        if earlier != position:
            text = f"id {step.id!r} is used twice; the first is step {earlier + 1} of the plan"
            found.append(
                StructureProblem("duplicate_id", text, step.id, ("id",), position=position)
            )
    names = Suggestions(first)
    for position, step in enumerate(steps):
        problems = _dependency_problems(step, names, known)
        found += (p._replace(position=position) for p in problems)
    loops = [[i, i] for i, position in first.items() if i in steps[position].depends_on]
    loops += cycles({steps[i].id: _others(steps[i]) for i in first.values()})
    found += (
        StructureProblem(
            "cycle",
            f"steps wait for each other: {' -> '.join(loop)}",
            loop[0],
            ("depends_on",),
            position=first[loop[0]],
        )
        for loop in loops
    )
    return found


def _others(step: Step) -> list[str]:
    return [need for need in step.depends_on if need != step.id]


def _dependency_problems(
    step: Step, names: Suggestions, known: Collection[str]
) -> Iterator[StructureProblem]:
    seen: set[str] = set()
    for i, need in enumerate(step.depends_on):
        where = ("depends_on", i)
        if need == step.id:
            text = "the step waits for itself"
            yield StructureProblem("self_dependency", text, step.id, where)
        elif need in seen:
            text = f"{need!r} stands twice in depends_on"
            yield StructureProblem("duplicate_dependency", text, step.id, where)
        elif need not in names and need not in known:
            text = f"depends_on names {need!r}, and no step has that id"
            fix = names.near(need)
            yield StructureProblem("unknown_dependency", text, step.id, where, fix=fix)
        seen.add(need)


def read_steps(
    document: Document, known: Collection[str] = ()
) -> tuple[StepPlan | None, list[ValidationIssue]]:
    """Read a document as a plan of steps; the plan is there when no issue is.

    ``known`` names steps of an earlier plan that these may wait for.
    """
    value = document.value
    if isinstance(value, dict) and list(value) == ["plan"] and isinstance(value["plan"], dict):
        document = document.inside("plan")
    reader = _Reader(document, known)
    reader.read()
    if reader.issues:
        return None, reader.issues
    return StepPlan.model_construct(steps=reader.steps), []


class _Reader:
    """Takes a document's steps one by one; what is wrong with one hides nothing of the others."""

    def __init__(self, document: Document, known: Collection[str]) -> None:
        self.steps: list[Step] = []
        self.issues = [
            issue.model_copy(update={"node_id": _id_at(document.value, route)})
            for issue, route in zip(document.problems, document.routes, strict=True)
        ]
        self._document = document
        self._known = known
        self._positions: list[int] = []

    def read(self) -> None:
        """Fill ``steps`` and ``issues``."""
        root = self._document.value
        if not self._document.complete:
            return
        if not isinstance(root, dict):
            fix = 'write {"steps": [...]} around the list' if isinstance(root, list) else None
            self._tell("bad_field", f"a plan is a map with steps, not {shown(root)}", (), fix=fix)
            return
        for key in root:
            if key != "steps":
                self._tell_field(unknown_field(key, (key,), StepPlan, root), (), None)
        if "steps" not in root:
            self._tell("missing_field", "field 'steps' is missing", ())
        elif not isinstance(root["steps"], list):
            self._tell("bad_field", f"steps must be a list, not {shown(root['steps'])}", ("steps",))
        elif not root["steps"]:
            self._tell("bad_field", "steps is empty: a plan has at least one step", ("steps",))
        else:
            for position, record in enumerate(root["steps"]):
                self._step(position, record)
        for problem in step_problems(self.steps, self._known):
            position = self._positions[problem.position or 0]
            route = ("steps", position, *problem.field)
            self._tell(problem.code, problem.message, route, problem.node_id, problem.fix)

    def _step(self, position: int, record: Any) -> None:
        route = ("steps", position)
        if not isinstance(record, dict):
            message = f"step {position + 1} must be a map, not {shown(record)}"
            self._tell("bad_field", message, route)
            return
        try:
            self._take(position, Step.model_validate(record))
        except ValidationError as error:
            name, needs = record.get("id"), record.get("depends_on")
            step_id = name if isinstance(name, str) else None
            for problem in field_problems(error, record, Step):
                self._tell_field(problem, route, step_id)
            if step_id:  # what it is called and waits for may still concern others
                known = [n for n in needs if isinstance(n, str)] if isinstance(needs, list) else []
                self._take(
                    position, Step.model_construct(id=step_id, description="", depends_on=known)
                )

    def _take(self, position: int, step: Step) -> None:
        self.steps.append(step)
        self._positions.append(position)

    def _tell_field(self, problem: FieldProblem, route: Route, step_id: str | None) -> None:
        path = (*route, *(problem.path[:-1] if problem.absent else problem.path))
        issue = self._document.issue(
            problem.code,
            problem.message,
            path,
            node_id=step_id,
            fix=problem.fix,
            at_key=problem.superfluous,
        )
        self.issues.append(issue)

    def _tell(
        self,
        code: str,
        message: str,
        route: Route,
        step_id: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.issues.append(self._document.issue(code, message, route, node_id=step_id, fix=fix))


def _id_at(root: Any, route: Route) -> str | None:
    """Give the id of the step that a path leads into, where it has one."""
    try:
        found = root["steps"][route[1]]["id"] if route[:1] == ("steps",) else None
    except (KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, str) else None
