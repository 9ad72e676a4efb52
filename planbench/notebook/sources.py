"""What a word of a magic names as a plan: a file, a version of it, a variable, a run."""

from __future__ import annotations

import contextlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from planbench.errors import CommandError, PlanLoadError
from planbench.files import load_plan
from planbench.notebook.command import plan_names
from planbench.plan.builder import Plan
from planbench.plan.diff import diff_plans
from planbench.plan.model import ExecutionPlan
from planbench.runtime import Run
from planbench.runtime.algorithm import is_algorithm
from planbench.validation import read_text

if TYPE_CHECKING:
    from planbench.llm import Extracted
    from planbench.notebook.command import Notebook
    from planbench.runtime.algorithm import Algorithm

KEPT: Final = 50


class CellTexts:
    """The texts of the latest ``%%plan`` cells, by what was read from them.

    ``latest`` is that of the last cell, also when it was no plan.
    """

    def __init__(self) -> None:
        self.latest: str | None = None
        self._kept: deque[tuple[str, str, ExecutionPlan | None]] = deque(maxlen=KEPT)

    def keep(self, found: Extracted, plan: ExecutionPlan | None) -> None:
        """Remember the text of a cell and its plan."""
        self.latest = found.text
        self._kept.appendleft((found.text, found.aligned, plan))

    def of_plan(self, plan: ExecutionPlan) -> str | None:
        """Give the text that this very plan was read from."""
        return next((text for text, _, kept in self._kept if kept is plan), None)

    def of_source(self, source: str) -> str:
        """Give the text as it was written of one that was moved to its place in a cell."""
        return next((text for text, aligned, _ in self._kept if aligned == source), source)


def plan_to_run(notebook: Notebook, word: str) -> Path | str | ExecutionPlan:
    """Find a plan: of the plans folder, by name or version, else one that the notebook holds."""
    value = notebook.shell.user_ns.get(word.removeprefix("@"))
    if word.startswith("@") or (
        isinstance(value, ExecutionPlan) and word not in plan_names(notebook.workbench)
    ):
        if not isinstance(value, ExecutionPlan):
            raise CommandError(f"the notebook has no plan {word!r}")
        return value
    return notebook.workbench.plans.source(word)


def holds_plan(notebook: Notebook, variable: str) -> bool:
    """Whether a variable of the notebook holds what can be read as a plan."""
    return _held(notebook.shell.user_ns.get(variable)) is not None


def algorithm_of(notebook: Notebook, word: str) -> Algorithm | None:
    """Give the algorithm that a variable of the notebook holds; a plan of that name goes first."""
    value = notebook.shell.user_ns.get(word.removeprefix("@"))
    if isinstance(value, ExecutionPlan | Plan | Run) or not is_algorithm(value):
        return None
    if word in plan_names(notebook.workbench):
        return None
    return cast("Algorithm", value)


def run_of(notebook: Notebook, word: str | None) -> Run:
    """Find a run: one that a variable holds, else by its id; without a word the latest.

    Raises CommandError.
    """
    value = None if word is None else notebook.shell.user_ns.get(word.removeprefix("@"))
    return value if isinstance(value, Run) else notebook.workbench.run(word)


def plan_of(notebook: Notebook, word: str) -> ExecutionPlan:
    """Give the plan that a word names; of a run the one that ran, its parameters put in."""
    found = _found(notebook, word)
    return found.plan if isinstance(found, Run) else load_plan(found)


def text_of(notebook: Notebook, word: str) -> str | ExecutionPlan:
    """Give the text of the plan that a word names, as it was written; the plan where there is none."""
    found = _found(notebook, word)
    if isinstance(found, Run):
        return _text_of_run(notebook, found)
    return found if isinstance(found, str) else notebook.cells.of_plan(found) or found


def _found(notebook: Notebook, word: str) -> str | ExecutionPlan | Run:
    """Find a text, a plan or a run; a name of the plans folder goes before a variable."""
    workbench, variable = notebook.workbench, word.removeprefix("@")
    if word != variable or word not in plan_names(workbench):
        held = _held(notebook.shell.user_ns.get(variable))
        if held is not None:
            return held
        if word != variable:
            raise CommandError(f"the notebook has no plan {word!r}")
    try:
        return workbench.plans.read(word)
    except PlanLoadError:
        with contextlib.suppress(CommandError):  # what is said of plans names what there is
            return workbench.run(word)
        raise


def _held(value: Any) -> str | ExecutionPlan | Run | None:
    """Give what a variable holds, where that is a plan, a text, a file, or a run."""
    if isinstance(value, Plan):
        return value.build()
    if isinstance(value, Path):
        return read_text(value)
    return value if isinstance(value, str | ExecutionPlan | Run) else None


def _text_of_run(notebook: Notebook, run: Run) -> str | ExecutionPlan:
    """Give the text that a run was made of, when it still is what ran."""
    if run.state.agent is not None:
        raise CommandError(
            f"run {run.run_id} is one of the algorithm {run.plan.name!r}: its steps are no plan of tool calls",
            hint="%plan show shows them",
        )
    origin = notebook.workbench.origins.get(run)
    if origin is None:
        return run.plan
    source = origin.source
    if isinstance(source, ExecutionPlan):
        return notebook.cells.of_plan(source) or source
    try:
        text = read_text(source) if isinstance(source, Path) else notebook.cells.of_source(source)
        same = not diff_plans(load_plan(text, origin.params), run.plan)
    except PlanLoadError:
        return run.plan
    return text if same else run.plan
