"""``%%plan_objective`` and ``%plan prompt``: a model writes the plan, and a person looks at it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from planbench.errors import CommandError, ConfigurationError, PlanAuthoringError, PlanbenchError
from planbench.llm import extract
from planbench.notebook.answering import AnswerView
from planbench.notebook.arguments import LineParser, read_value, variable_name
from planbench.notebook.bundle import LAYOUT, Html, tag
from planbench.notebook.command import Notebook, plan_words
from planbench.notebook.sources import holds_plan, text_of
from planbench.notebook.versions import diff_bundle
from planbench.plan.diff import diff_plans
from planbench.plan.document import format_yaml, read_document
from planbench.plan.draft import unwrapped
from planbench.plan.model import ExecutionPlan, Provenance
from planbench.plan.structure import suggestion
from planbench.tools import is_allowed
from planbench.validation import ValidationReport

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from planbench.llm import LLMHandler
    from planbench.planner import AuthoredPlan, PlanPlanner
    from planbench.session import PlanSession
    from planbench.workbench import Workbench

_LATEST: Final = ""  # a plan's name cannot be empty
_MAX_ISSUES: Final = 10
_NO_MODEL: Final = (
    "no model is chosen to write the plan: give --model provider:model or set %config PlanMagics.planner;"
    ' without a key, %plan prompt "objective" gives the prompt for a chat window'
)
_COPY: Final = "max-height:24em;overflow:auto;user-select:all"


class AuthoringNotebook(Notebook, Protocol):
    """What the authoring of a plan can reach beyond what a subcommand can."""

    def show_session(self, session: PlanSession, *, static: bool) -> None:
        """Put the panel of a plan into the cell."""
        ...


class _Written(NamedTuple):
    """A text in the next cell: under which name it is kept, and what a check says of it there."""

    draft: str
    session: PlanSession
    is_read: bool


def objective_parser() -> LineParser:
    """Make the parser for the first line of ``%%plan_objective``."""
    parser = LineParser(
        "%%plan_objective",
        "Have a model write a plan for the objective in this cell; it is checked, kept in"
        "\nplans/drafts and put into the next cell.",
    )
    parser.add_argument("var", metavar="VAR", nargs="?", help="gets the plan")
    parser.add_argument(
        "--model",
        metavar="M",
        help="provider:model, or @VARIABLE for a client of the notebook; without it"
        " %%config PlanMagics.planner",
    )
    _add_tools(parser)
    parser.add_argument(
        "--revise",
        metavar="PLAN",
        nargs="?",
        const=_LATEST,
        help="change a plan as this cell says: one of the plans folder, a variable, a run; without"
        " a name that of VAR, or of the last cell",
    )
    parser.add_argument("--name", metavar="N", help="the name of the plan, whatever the model says")
    parser.add_argument("--static", action="store_true", help="a picture in place of the panel")
    return parser


def prompt_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan prompt``."""
    parser = LineParser(
        "%plan prompt", "the prompt for a chat window; paste the answer into a %%plan cell"
    )
    parser.add_argument("objective", metavar="OBJECTIVE", nargs="+", help="what the plan is for")
    _add_tools(parser)
    return parser


def _add_tools(parser: LineParser) -> None:
    parser.add_argument(
        "--tools",
        metavar="PATTERN",
        action="append",
        help="what the model is told of and may use: a name, or a pattern as fetch*; may be given again",
    )


async def author(notebook: AuthoringNotebook, line: str, body: str, *, static: bool) -> None:
    """Do what a ``%%plan_objective`` cell says; raises what is red.

    Whatever the model wrote is kept as a draft and put into the next cell, also when it
    is red. Raises PlanAuthoringError, ModelError, ConfigurationError and CommandError.
    """
    options = objective_parser().read(line)
    var = None if options.var is None else variable_name(options.var)
    if not body.strip():
        what = "what should change" if options.revise is not None else "what the plan is for"
        raise CommandError(f"the cell is empty: write {what} below the first line")
    tools = _patterns(notebook.workbench, options.tools)
    former = None if options.revise is None else _former(notebook, options.revise, var)
    llm, is_own = _model(notebook, options.model)
    try:
        view = AnswerView(llm)
        planner = notebook.workbench.plan_planner(llm)
        authored = await _asked(notebook, planner, view, body, former, tools, options)
    finally:
        if is_own:
            await llm.close()
    known = authored.plan or authored.report.draft
    text = _text_of(authored, options.name, body.strip())
    name = options.name or (known.name if known is not None else "plan")
    written = _put(notebook, text, name, var)
    kept = f"draft: {written.draft}; it is in the next cell"
    view.end([kept], authored.catalog, authored.model)
    _show_difference(notebook, former, authored)
    notebook.show_session(written.session, static=static or options.static)
    _raise_red(authored, written, view.model)
    if var is not None:
        notebook.shell.user_ns[var] = written.session.plan


async def _asked(
    notebook: AuthoringNotebook,
    planner: PlanPlanner,
    view: AnswerView,
    body: str,
    former: str | ExecutionPlan | None,
    tools: list[str] | None,
    options: Namespace,
) -> AuthoredPlan:
    """Ask and show the answer as it comes; what goes wrong has its line in the cell too."""
    if former is None:
        work = planner.author(body, name=options.name, tools=tools, on_text=view.hear)
    else:
        report = notebook.workbench.check(former)
        work = planner.revise(former, report, body.strip(), tools=tools, on_text=view.hear)
    try:
        return await view.until(work)
    except asyncio.CancelledError:
        view.end(["interrupted"])
        raise PlanAuthoringError(
            "interrupted",
            f"{view.model} was interrupted, and nothing was written",
            report=ValidationReport(ok=False),
        ) from None
    except PlanAuthoringError as error:
        came = Provenance(objective=body.strip(), model=view.model)
        kept = _keep_earlier(notebook, error, options, came)
        view.end([f"{error.code}: {error.message}", *kept])
        raise
    except PlanbenchError as error:
        view.end([f"{error.code}: {error.message}"])
        raise


def _keep_earlier(
    notebook: AuthoringNotebook, error: PlanAuthoringError, options: Namespace, came: Provenance
) -> list[str]:
    """Keep an earlier answer that a correction broke off; half an answer is no draft."""
    known = error.report.plan or error.report.draft
    if known is None:
        return []
    text = _mendable(error.text, came)
    written = _put(notebook, text, options.name or known.name, options.var)
    written.session.close()
    return [f"the answer before that: {written.draft}; it is in the next cell"]


def _text_of(authored: AuthoredPlan, name: str | None, objective: str) -> str:
    """Give the text of what was written, which says for what and by whom."""
    plan = authored.plan
    if plan is None:
        came = Provenance(objective=objective, model=authored.model)
        return _mendable(authored.text, came)
    if name is not None and plan.name != name:
        plan = plan.model_copy(update={"name": name})
    return plan.to_yaml()


def _put(notebook: AuthoringNotebook, text: str, name: str, var: str | None) -> _Written:
    """Keep a text as a draft, put it into the next cell, and read it as that cell will."""
    draft = notebook.workbench.plans.drafts.keep(text, name)
    notebook.shell.set_next_input(f"%%plan{f' {var}' if var else ''}\n{text}")
    found = extract(text)
    if found.issues:
        return _Written(draft, notebook.workbench.session(text, name=name), is_read=False)
    session = notebook.workbench.session(found.aligned)
    notebook.cells.keep(found, session.plan)
    return _Written(draft, session, is_read=True)


def _mendable(answer: str, came: Provenance) -> str:
    """Give an answer that is no plan as it is mended best: as YAML where it can be read."""
    found = extract(answer)
    if found.issues:
        return answer
    document = unwrapped(read_document(found.aligned))
    if not document.complete or not isinstance(document.value, dict):
        return found.text
    record = {name: value for name, value in document.value.items() if name != "provenance"}
    record["provenance"] = came.model_dump(mode="json", exclude_none=True)
    return format_yaml(record)


def _raise_red(authored: AuthoredPlan, written: _Written, model: str) -> None:
    """Raise for a plan that may not run, with the places of the text in the next cell."""
    if authored.report.ok and written.session.report.ok:
        return
    in_cell = written.session.report
    report = authored.report if in_cell.ok or not written.is_read else in_cell
    errors = [str(issue) for issue in report.issues if issue.severity == "error"]
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    lines = [f"the plan that {authored.model or model} wrote has {count}", *errors[:_MAX_ISSUES]]
    if len(errors) > _MAX_ISSUES:
        lines.append(f"and {len(errors) - _MAX_ISSUES} more")
    raise PlanAuthoringError(
        "plan_invalid",
        "\n".join(lines),
        report=report,
        text=authored.text,
        usage=authored.usage,
        attempts=authored.attempts,
        hint=f"it is in the next cell and in {written.draft}: mend it, or write %%plan_objective --revise",
    )


def _show_difference(
    notebook: AuthoringNotebook, former: str | ExecutionPlan | None, authored: AuthoredPlan
) -> None:
    """Draw what a revision changed; where a plan came from is no change of it."""
    new = authored.plan
    if former is None or new is None:
        return
    old = former if isinstance(former, ExecutionPlan) else notebook.workbench.check(former).plan
    if old is None:
        return  # it was no plan before, so there is nothing to compare
    nowhere = {"provenance": None}
    found = diff_plans(old.model_copy(update=nowhere), new.model_copy(update=nowhere))
    notebook.publish(diff_bundle(found))


# -- what the line names -------------------------------------------------------------------


def _model(notebook: AuthoringNotebook, word: str | None) -> tuple[LLMHandler, bool]:
    """Give the model to ask, and whether its client was made here and has to be closed."""
    spec: Any = notebook.workbench.planner
    if word is not None:
        spec = read_value(word, notebook.shell.user_ns, f"--model {word}")
    if spec is None:
        raise CommandError(_NO_MODEL)
    is_client = not isinstance(spec, type) and callable(getattr(spec, "complete", None))
    return notebook.workbench.model(spec), not is_client


def _patterns(workbench: Workbench, written: list[str] | None) -> list[str] | None:
    """Give the patterns of ``--tools``; raises CommandError for one that no allowed tool fits."""
    if written is None:
        return None
    patterns = [one for word in written for one in word.split(",") if one]
    names = [one for one in workbench.registry.names() if is_allowed(one, workbench.allowed_tools)]
    for pattern in patterns:
        if not any(is_allowed(name, pattern) for name in names):
            raise CommandError(
                f"--tools {pattern}: no tool that plans may call has such a name",
                hint=suggestion(pattern, names) or "%plan tools lists them",
            )
    return patterns


def _former(notebook: AuthoringNotebook, word: str, var: str | None) -> str | ExecutionPlan:
    """Find the plan to be revised."""
    if word != _LATEST:
        return text_of(notebook, word)
    if var is not None and holds_plan(notebook, var):
        return text_of(notebook, f"@{var}")
    if notebook.cells.latest is None:
        raise CommandError(
            "there was no %%plan cell yet, so it has to be said which plan to revise",
            hint="write: %%plan_objective --revise NAME",
        )
    return notebook.cells.latest


# -- without a key -------------------------------------------------------------------------


def prompt(notebook: Notebook, words: list[str]) -> None:
    """Show what a model would be told, for a chat window."""
    options = prompt_parser().read(words)
    tools = _patterns(notebook.workbench, options.tools)
    objective = " ".join(options.objective)
    try:
        text = notebook.workbench.plan_planner().prompt(objective, tools=tools)
    except ConfigurationError as error:
        raise CommandError(error.message, hint="put @tool above a function") from error
    how = "A click selects all of it. Paste the answer into a cell that begins with %%plan."
    inner = (tag("p", how, class_="pbs-soft"), tag("pre", text, class_="pbs-pre", style=_COPY))
    page = tag("div", Html(f"<style>{LAYOUT}</style>"), *inner, class_="pb-static")
    notebook.publish({"text/html": str(page), "text/plain": text})


def prompt_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name the tools behind ``--tools``; the objective is up to the author."""
    del word
    return workbench.registry.names() if before[-1:] == ["--tools"] else ()


def objective_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name what may stand on the first line of ``%%plan_objective``."""
    if before[-1:] == ["--tools"]:
        return workbench.registry.names()
    if before[-1:] == ["--revise"]:
        return [*plan_words(workbench, word), *objective_parser().flags()]
    return objective_parser().flags()
