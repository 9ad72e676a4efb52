"""``%plan save``, ``%plan history`` and ``%plan diff``: the versions of plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from IPython.core.getipython import get_ipython

from planbench.errors import CommandError, RenderError
from planbench.notebook.arguments import LineParser
from planbench.notebook.bundle import LAYOUT, LAYOUT_SECONDS, Html, tag
from planbench.notebook.command import Notebook, frame, one, plan_words, run_words
from planbench.notebook.sources import plan_of, text_of
from planbench.plan.diff import diff_plans
from planbench.plan.model import ExecutionPlan
from planbench.render.diff import draw_diff
from planbench.runtime import Run

if TYPE_CHECKING:
    from planbench.notebook.listing import Listing
    from planbench.plan.diff import PlanDiff
    from planbench.workbench import Workbench

_SHA: Final = 12
_SOURCES: Final = (
    "a plan of the plans folder, NAME@2, NAME@main, drafts/NAME-1, a variable, or a run"
)


def save_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan save``."""
    parser = LineParser("%plan save", "save a plan in the plans folder, as a new version")
    parser.add_argument("name", metavar="NAME", help="the name to save it under")
    parser.add_argument(
        "plan",
        metavar="VAR|RUN",
        nargs="?",
        help=f"{_SOURCES}; without it the plan of the last cell, else the latest draft of that name",
    )
    parser.add_argument(
        "--force", action="store_true", help="save a plan also when it does not fit the tools"
    )
    return parser


def diff_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan diff``."""
    parser = LineParser("%plan diff", "say what differs between two plans, and draw it")
    parser.add_argument("old", metavar="A", help=_SOURCES)
    parser.add_argument("new", metavar="B", help="the same")
    parser.add_argument(
        "--markdown", action="store_true", help="the text of it as Markdown, for a pull request"
    )
    return parser


def save(notebook: Notebook, words: list[str]) -> str:
    """Save a plan; its text as it was written, comments included, where there is one."""
    options = save_parser().read(words)
    if options.plan is not None:
        plan = text_of(notebook, options.plan)
    elif notebook.cells.latest is not None:
        plan = notebook.cells.latest
    elif (draft := notebook.workbench.plans.drafts.latest(options.name)) is not None:
        plan = notebook.workbench.plans.read(draft)
    else:
        raise CommandError(
            "there was no %%plan cell yet, so it has to be said which plan to save",
            hint=f"write: %plan save {options.name} VARIABLE",
        )
    saved = notebook.workbench.save(plan, options.name, force=options.force)
    made = saved.report.plan
    other = ""
    if made is not None and made.name != options.name and plan is notebook.cells.latest:
        other = f": the plan {made.name!r} of the last %%plan cell"
    return "\n".join([f"{saved}{other}", *map(str, saved.report.issues)])


def history(notebook: Notebook, words: list[str]) -> Listing:
    """Table the versions of a plan, the oldest first."""
    name = one(words, "history", "NAME", "the versions of a plan, the oldest first")
    rows = [
        (
            version.version,
            version.saved_at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            version.objective or "",
            version.model or "",
            version.sha256[:_SHA],
        )
        for version in notebook.workbench.plans.history(name)
    ]
    return frame(rows, ["version", "saved", "objective", "model", "sha256"])


def diff(notebook: Notebook, words: list[str]) -> str | None:
    """Say what differs, and draw both plans as one graph."""
    options = diff_parser().read(words)
    found = diff_plans(plan_of(notebook, options.old), plan_of(notebook, options.new))
    if options.markdown:
        return found.to_markdown()
    notebook.publish(diff_bundle(found))
    return None


def diff_bundle(diff: PlanDiff) -> dict[str, str]:
    """Give a diff as HTML, SVG and text; the text alone where nothing can be drawn."""
    said = diff.to_text()
    try:
        svg = draw_diff(diff, timeout=LAYOUT_SECONDS)
    except RenderError:
        return {"text/plain": said}
    parts = (Html(f"<style>{LAYOUT}</style>"), tag("pre", said), Html(svg))
    return {
        "text/html": str(tag("div", *parts, class_="pb-static")),
        "image/svg+xml": svg,
        "text/plain": said,
    }


def save_words(workbench: Workbench, before: list[str], word: str) -> list[str]:
    """Name the plans there are, then what can be saved."""
    if not before:
        return plan_words(workbench, "")
    return [*_variables(), *run_words(workbench), *plan_words(workbench, word)]


def diff_words(workbench: Workbench, before: list[str], word: str) -> list[str]:
    """Name what can be compared."""
    del before
    return [*plan_words(workbench, word), *_variables(), *run_words(workbench)]


def _variables() -> list[str]:
    """Name the variables of the notebook that hold a plan or a run."""
    shell = get_ipython()
    names = {} if shell is None else shell.user_ns
    return [
        name
        for name, value in names.items()
        if isinstance(value, ExecutionPlan | Run) and not name.startswith("_")
    ]
