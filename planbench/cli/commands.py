"""The commands about one plan: validate, run, render. Each gives its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.cli.arguments import PICTURES
from planbench.cli.execution import FINE, WRONG, block, check_writable, execute, verdict
from planbench.cli.record import session_page
from planbench.cli.terminal import errors, output
from planbench.cli.toolsources import collect
from planbench.errors import CommandError, PlanInvalid
from planbench.render.dot import dot_source
from planbench.render.svg import draw
from planbench.render.text import as_text
from planbench.validation import check_plan, read_text
from planbench.workbench import Workbench

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from planbench.plan.issues import ValidationIssue
    from planbench.plan.model import ExecutionPlan
    from planbench.runtime.run import Run
    from planbench.session import PlanSession
    from planbench.validation import ValidationReport
    from planbench.validation.given import Buildable

PLAN_FILES: Final = (".yaml", ".yml", ".json")


class Unequipped(Workbench):
    """A workbench for which nobody named tools: it checks everything but the tools."""

    def check(
        self,
        source: str | Path | Mapping[str, Any] | ExecutionPlan | Buildable,
        params: Mapping[str, Any] | None = None,
    ) -> ValidationReport:
        """Check a plan; the report says that the tools are unknown."""
        return check_plan(source, None, params=params)


def validate(options: argparse.Namespace) -> int:
    """Check the plan; every finding is a line ``file:line:column: severity: message``."""
    session = _session(_workbench(options), options)
    report = session.report
    screen = output()
    if options.json:
        screen.write(json.dumps(_record(report), indent=2, ensure_ascii=False) + "\n")
        return FINE if report.ok else WRONG
    called = _called(session, options)
    for issue in report.issues:
        screen.line(_finding(issue, called))
    screen.line(f"{called}: {_counted(report)}")
    return FINE if report.ok else WRONG


def run(options: argparse.Namespace) -> int:
    """Check the plan and run it; the record is also written for a run that is red."""
    on_output = options.json == "-"
    for file in (options.html, None if on_output or options.json is None else Path(options.json)):
        if file is not None:
            check_writable(file)
    workbench = _workbench(options)
    session = _session(workbench, options, unasked={})
    if isinstance(workbench, Unequipped):
        raise CommandError(
            "nobody named the tools of the plan",
            hint="add --tools MODULE, or [tool.planbench] tools = [...] to pyproject.toml",
        )
    called = _called(session, options)
    _refuse_invalid(session, called)
    for issue in session.report.issues:
        errors().line(_finding(issue, called))
    screen = errors() if on_output else output()
    finished, signalled = execute(workbench, session, screen)
    code = verdict(finished, strict=options.strict, allow_errors=options.allow_errors)
    if options.json:
        _write_manifest(finished, options.json)
    if options.html:
        options.html.write_text(session_page(session), encoding="utf-8")
        screen.line(f"wrote {options.html}")
    return code if signalled is None else signalled


def render(options: argparse.Namespace) -> int:
    """Draw the plan as far as it can be read; errors in it are marked, and exit with 2."""
    file: Path = options.output
    if file.suffix not in PICTURES:
        raise CommandError(
            f"the picture {file} ends with none of {', '.join(PICTURES)}",
            hint=f"write, for example, -o {file.stem or 'plan'}.svg",
        )
    check_writable(file)
    session = _session(_workbench(options), options)
    view = session.view()
    called = _called(session, options)
    if view is None:
        _refuse_invalid(session, called)
        raise CommandError(f"there is nothing to draw in {called}")
    if file.suffix == ".html":
        text = session_page(session)
    elif file.suffix == ".dot":
        text = dot_source(view)
    else:
        text = draw(view) if file.suffix == ".svg" else as_text(view)
    file.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    output().line(f"wrote {file}")
    if session.report.ok:
        return FINE
    block(f"{called}: {_counted(session.report)}", _findings(session.report, called))
    return WRONG


def _workbench(options: argparse.Namespace) -> Workbench:
    registry = collect(options.tools, Path.cwd())
    if registry is None:
        return Unequipped(plans_dir=options.plans_dir)
    return Workbench(registry, plans_dir=options.plans_dir)


def _session(
    workbench: Workbench, options: argparse.Namespace, unasked: Mapping[str, Any] | None = None
) -> PlanSession:
    """Open the plan; ``unasked`` are its parameters where none are given.

    With None it is checked with its parameters left open.
    """
    source = _source(options.plan, workbench)
    return workbench.session(source, _params(options.param) or unasked)


def _source(plan: str, workbench: Workbench) -> str | Path:
    if plan == "-":
        return sys.stdin.read()
    path = Path(plan)
    if path.suffix in PLAN_FILES or len(path.parts) > 1:
        # a pipe, as <(...) is one, gives its text once, and a plan is checked more than once
        regular = path.is_file() or path.is_dir() or not path.exists()
        return path if regular else read_text(path)
    return workbench.plans.path(plan)


def _called(session: PlanSession, options: argparse.Namespace) -> str:
    """Give what findings name as their place: the file of the plan where there is one."""
    return str(session.source) if isinstance(session.source, Path) else options.plan


def _params(written: list[str]) -> dict[str, Any]:
    """Read ``k=v``; a value is text, which the plan's declaration may give a type."""
    found: dict[str, Any] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(
                f"--param {one!r} gives no value",
                hint="write --param NAME=VALUE, as date=2026-08-06",
            )
        if name in found:
            raise CommandError(f"--param {name} is given twice")
        found[name] = value
    return found


def _refuse_invalid(session: PlanSession, called: str) -> None:
    if not session.report.ok:
        raise PlanInvalid(session.report.issues, path=called, name=session.name)


def _finding(issue: ValidationIssue, called: str) -> str:
    place = called if issue.line is None else f"{called}:{issue.line}:{issue.column or 1}"
    node = "" if issue.node_id is None else f"node {issue.node_id!r}: "
    fix = "" if issue.fix is None else f" ({issue.fix})"
    return f"{place}: {issue.severity}: {node}{issue.message} [{issue.code}]{fix}"


def _findings(report: ValidationReport, called: str) -> str:
    return "\n".join(_finding(issue, called) for issue in report.issues)


def _counted(report: ValidationReport) -> str:
    counts = {
        kind: sum(issue.severity == kind for issue in report.issues)
        for kind in ("error", "warning")
    }
    said = [f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts.items() if n]
    if report.ok and report.plan is not None:
        nodes = len(report.plan.nodes)
        said.insert(0, f"ok, {nodes} node{'s' if nodes > 1 else ''}")
    return ", ".join(said)


def _record(report: ValidationReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "plan": report.plan.to_dict() if report.plan else None,
        "issues": [issue.model_dump(mode="json") for issue in report.issues],
        "inferred": report.inferred,
    }


def _write_manifest(finished: Run, target: str) -> None:
    text = finished.manifest().model_dump_json(indent=2) + "\n"
    if target == "-":
        output().write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")
