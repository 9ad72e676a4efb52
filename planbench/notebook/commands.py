"""The subcommands of ``%plan`` that answer at once: lists, looks, and the next cell."""

from __future__ import annotations

import importlib
import inspect
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError, PlanLoadError
from planbench.notebook import authoring, continuations, edits, runfiles, versions
from planbench.notebook.arguments import LineParser, own_names, run_parser
from planbench.notebook.command import Command, Notebook, frame, one, plan_names
from planbench.notebook.skeleton import skeleton
from planbench.notebook.sources import run_of
from planbench.plan.structure import suggestion
from planbench.runtime.outlook import outlook_of
from planbench.runtime.run_format import ENDING
from planbench.tools.importing import import_failure
from planbench.validation import read_text

if TYPE_CHECKING:
    from planbench.notebook.listing import Listing
    from planbench.runtime import Run
    from planbench.tools import Tool
    from planbench.workbench import Workbench

NEW_PLAN_TOOLS: Final = 3
"""How many tools a new plan takes when none is named."""
ABOUT_TOOLS: Final = frozenset({"unknown_tool", "tool_missing", "tool_changed", "lock_unreadable"})


def unknown_command(name: str) -> CommandError:
    """Make the error for a subcommand that does not exist."""
    near = suggestion(name, list(COMMANDS))
    return CommandError(f"%plan has no {name!r}", hint=near or f"it has: {', '.join(COMMANDS)}")


def overview(workbench: Workbench) -> str:
    """Say how things stand and what may come next."""
    tools, plans, runs = list(workbench.registry.names()), plan_names(workbench), workbench.runs
    lines = [
        f"tools: {_some(tools) or 'none yet: put @tool above a function'}",
        f"plans: {_some(plans) or 'none in the plans folder yet'}",
        f"runs:  {_some([f'{run.run_id} {run.plan.name} {run.status}' for run in reversed(runs)]) or 'none yet'}",
    ]
    left = workbench.interrupted()
    if left:
        said = _some([f"{one.run_id} {one.plan.name} {one.calls_left}" for one in reversed(left)])
        lines.append(f"interrupted: {said}")
    if workbench.note:
        lines.append(f"note:  {workbench.note}")
    lines.append("next:")
    first_tool = tools[0] if tools else "[TOOL ...]"
    steps = [(f"%plan new {first_tool}", "a plan to fill in, in the next cell")] if tools else []
    if plans:
        steps += [
            (f"%plan run {plans[0]}", "run it and wait"),
            (f"%plan load {plans[0]}", "its text in the next cell"),
        ]
    if left:
        steps += [(f"%plan resume {left[-1].run_id}", "go on with the interrupted run")]
    if runs:
        steps += [(f"%plan show {runs[-1].run_id}", "the panel of the latest run")]
        if outlook_of(runs[-1]):
            steps += [(f"%plan resume {runs[-1].run_id}", "try again what failed or was cut off")]
    if not tools:
        steps += [("%plan tools add MODULE", "functions of a module as tools")]
    steps += [("%plan -h", "all subcommands")]
    width = max(len(step) for step, _ in steps)
    return "\n".join([*lines, *(f"  {step:<{width}}  {what}" for step, what in steps)])


def usage() -> str:
    """List the subcommands."""
    left = [f"%plan {name} {command.takes}".rstrip() for name, command in COMMANDS.items()]
    width = max(map(len, left))
    lines = [
        f"  {one:<{width}}  {c.summary}" for one, c in zip(left, COMMANDS.values(), strict=True)
    ]
    return "\n".join(
        [
            "%plan: status and the next useful commands",
            *lines,
            "%%plan [VAR]: a plan in the cell; see %%plan -h",
            "%%plan_objective [VAR]: an objective, for which a model writes the plan",
        ]
    )


def _some(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _tools(notebook: Notebook, words: list[str]) -> Listing:
    """Table the tools, or those that fit a pattern; ``add`` registers more of them."""
    if words[:1] == ["add"]:
        parser = LineParser("%plan tools add", "register functions of the notebook or of a module")
        parser.add_argument("names", metavar="MODULE|FUNCTION", nargs="+")
        names = parser.read(words[1:]).names
        return _tool_table([tool for name in names for tool in _add(notebook, name)])
    parser = LineParser("%plan tools", "the tools that a plan can call; add registers more")
    parser.add_argument(
        "patterns", metavar="TOOL", nargs="*", help="a name, or a pattern as fetch*"
    )
    return _tool_table(_chosen(notebook.workbench, parser.read(words).patterns))


def _tool_table(tools: list[Tool]) -> Listing:
    rows = [
        (
            tool.name,
            tool.signature_text,
            tool.effects,
            tool.description.partition("\n")[0],
            tool.module,
        )
        for tool in tools
    ]
    return frame(rows, ["tool", "call", "effects", "description", "module"])


def _chosen(workbench: Workbench, patterns: list[str]) -> list[Tool]:
    known = {tool.name: tool for tool in workbench.registry.list_tools()}
    if not patterns:
        return list(known.values())
    found: dict[str, Tool] = {}
    for pattern in patterns:
        fitting = {name: tool for name, tool in known.items() if fnmatchcase(name, pattern)}
        if not fitting:
            raise CommandError(
                f"no tool is called {pattern!r}",
                hint=suggestion(pattern, list(known)) or "%plan tools lists them",
            )
        found.update(fitting)
    return list(found.values())


def _add(notebook: Notebook, name: str) -> list[Tool]:
    names = notebook.shell.user_ns
    thing = names[name] if name in names else _imported(name, names)
    registered = notebook.workbench.registry.register(thing)
    if isinstance(registered, list):
        if not registered:
            raise CommandError(
                f"{name!r} is empty, so it gives no tools", hint="put functions into it first"
            )
        return registered
    if inspect.isfunction(thing) and name in names:
        notebook.follow(name, thing, registered)
    return [registered]


def _imported(name: str, names: dict[str, Any]) -> Any:
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise CommandError(
            f"{name!r} is neither a name of the notebook nor a module",
            hint="a module is named as in an import, without a path or an ending: my_tools",
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise CommandError(
                f"importing {module_name!r} failed: {error}", hint="install what it imports"
            ) from error
        known = [one for one in own_names(names) if callable(names[one])]
        raise CommandError(
            f"the notebook has no {name!r}, and there is no module of that name",
            hint=suggestion(name, known)
            or "name a function of a cell, or a module that can be imported from here, as my_tools",
        ) from error
    except (Exception, SystemExit) as error:
        raise import_failure(module_name, error) from error
    if not attribute:
        return module
    if not hasattr(module, attribute):
        raise CommandError(
            f"module {module_name!r} has no {attribute!r}",
            hint=suggestion(attribute, [one for one in vars(module) if not one.startswith("_")])
            or f"%plan tools add {module_name} adds all of its functions",
        )
    return getattr(module, attribute)


def _list(notebook: Notebook, words: list[str]) -> Listing:
    """Table the plans of the plans folder, and whether each fits the tools as they are now."""
    LineParser("%plan list", "the plans of the plans folder").read(words)
    workbench = notebook.workbench
    rows = []
    for entry in workbench.plans.list():
        error = entry.error
        if error is None:
            issues = workbench.check(entry.path).issues
            error = next((str(issue) for issue in issues if issue.severity == "error"), "")
        rows.append((entry.name, entry.objective or "", entry.nodes, error))
    return frame(rows, ["plan", "objective", "nodes", "first error"])


def _load(notebook: Notebook, words: list[str]) -> str | None:
    """Put the text of a plan into the next cell; say which of its tools are not what they were."""
    plans = notebook.workbench.plans
    name = one(words, "load", "NAME", "put a plan's text into the next cell")
    source = plans.source(name)
    text = source if isinstance(source, str) else read_text(source)
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise PlanLoadError(f"plan {name!r} cannot be read: it is no UTF-8 text")
    notebook.shell.set_next_input(f"%%plan\n{text}")
    issues = notebook.workbench.check(source).issues
    return "\n".join(str(issue) for issue in issues if issue.code in ABOUT_TOOLS) or None


def _new(notebook: Notebook, words: list[str]) -> None:
    """Put a plan to fill in into the next cell."""
    parser = LineParser("%plan new", "put a plan to fill in into the next cell")
    parser.add_argument(
        "tools", metavar="TOOL", nargs="*", help="a node for each; patterns as fetch*"
    )
    wanted = parser.read(words).tools
    tools = _chosen(notebook.workbench, wanted)
    if not tools:
        raise CommandError(
            "no tool is registered yet, so there is nothing that a plan could call",
            hint="put @tool above a function, or: %plan tools add MODULE",
        )
    chosen = tools if wanted else tools[:NEW_PLAN_TOOLS]
    notebook.shell.set_next_input(f"%%plan\n{skeleton(chosen)}")


def _runs(notebook: Notebook, words: list[str]) -> Listing:
    """Table the runs of this kernel, the latest first."""
    continuations.runs_parser().read(words)
    return continuations.kernel_runs(notebook.workbench)


def _show(notebook: Notebook, words: list[str]) -> None:
    """Open the panel of a run again."""
    notebook.show_run(_run(notebook, words, "show", "open the panel of a run again"))


def _status(notebook: Notebook, words: list[str]) -> Listing:
    """Table the nodes of a run as they stand."""
    run = _run(notebook, words, "status", "the nodes of a run as they stand")
    return continuations.status_table(run)


def _artifacts(notebook: Notebook, words: list[str]) -> Listing:
    """Table what a run of this kernel has stored."""
    run = _run(notebook, words, "artifacts", "what a run has stored")
    return continuations.artifact_table(run, in_memory=True)


def _cancel(notebook: Notebook, words: list[str]) -> str:
    """Cancel a live run."""
    run = _run(notebook, words, "cancel", "cancel a live run")
    if run.finished:
        raise CommandError(
            f"run {run.run_id} has ended already: {run.status}",
            hint=f"%plan status {run.run_id} tells how its nodes ended",
        )
    run.cancel()
    return f"cancelling {run.run_id}; %plan status {run.run_id} tells how its nodes ended"


def _run(notebook: Notebook, words: list[str], command: str, summary: str) -> Run:
    return run_of(notebook, one(words, command, "RUN", summary, optional=True))


COMMANDS: Final[dict[str, Command]] = {
    "tools": Command(
        "[TOOL ...] | add MODULE|FUNCTION ...", "the tools that a plan can call", _tools
    ),
    "list": Command("", "the plans of the plans folder", _list),
    "load": Command("NAME", "a plan's text in the next cell", _load),
    "save": Command(
        "NAME [VAR|RUN]",
        "save the plan of the last cell, of a variable or of a run",
        versions.save,
        versions.save_parser,
        versions.save_words,
    ),
    "history": Command("NAME", "the versions of a plan", versions.history),
    "diff": Command(
        "A B",
        "what differs between two plans",
        versions.diff,
        versions.diff_parser,
        versions.diff_words,
    ),
    "set": Command(
        "NAME PARAM=VALUE|NODE.ARG=VALUE ...",
        "change defaults and arguments in a plan's text",
        edits.change,
        edits.set_parser,
        edits.set_words,
    ),
    "rename": Command(
        "NAME OLD NEW",
        "give a node of a plan another id",
        edits.rename,
        edits.rename_parser,
        edits.rename_words,
    ),
    "new": Command("[TOOL ...]", "a plan to fill in, in the next cell", _new),
    "prompt": Command(
        "OBJECTIVE [--tools PATTERN]",
        "what a model would be told, for a chat window",
        authoring.prompt,
        authoring.prompt_parser,
        authoring.prompt_words,
    ),
    "run": Command("NAME [--param K=V]", "run a plan and wait in this cell", parser=run_parser),
    "runs": Command(
        "[--all] [--status S]",
        "the runs of this kernel and those on record",
        _runs,
        continuations.runs_parser,
        wait=continuations.runs,
    ),
    "show": Command("[RUN]", "the panel of a run", _show, wait=continuations.show),
    "resume": Command(
        f"[RUN|FILE{ENDING}] [--with PLAN]",
        "go on with a run, also with a mended plan",
        parser=continuations.resume_parser,
        words=continuations.resume_words,
        wait=continuations.resume,
    ),
    "repair": Command(
        "[RUN] [--model M]",
        "have a model mend a run, and go on with it",
        parser=continuations.repair_parser,
        wait=continuations.repair,
    ),
    "open": Command(
        "FILE [VAR]",
        "a run that was saved to a file",
        runfiles.open_file,
        runfiles.open_parser,
        runfiles.open_words,
    ),
    "status": Command(
        "[RUN]", "the nodes of a run as they stand", _status, wait=continuations.status
    ),
    "artifacts": Command(
        "[RUN]", "what a run has stored", _artifacts, wait=continuations.artifacts
    ),
    "cancel": Command("[RUN]", "cancel a live run", _cancel),
}
