"""The commands about one plan: validate, run, render. Each gives its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.cli.arguments import PICTURES
from planbench.cli.equipment import Unequipped, workbench_of
from planbench.cli.execution import (
    FINE,
    WRONG,
    block,
    check_writable,
    execute,
    tell_the_rest,
    verdict,
)
from planbench.cli.findings import counted, finding, findings, inferred
from planbench.cli.record import session_page
from planbench.cli.sources import parameters, plan_source
from planbench.cli.terminal import errors, output
from planbench.errors import CommandError, PlanInvalid
from planbench.render.dot import dot_source
from planbench.render.svg import draw
from planbench.render.text import as_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from planbench.runtime.run import Run
    from planbench.session import PlanSession
    from planbench.validation import ValidationReport
    from planbench.workbench import Workbench


def validate(options: argparse.Namespace) -> int:
    """Check the plan; every finding is a line ``file:line:column: severity: message``."""
    workbench = workbench_of(options)
    session = _session(workbench, options)
    report = session.report if options.param else _with_defaults(workbench, session)
    screen = output()
    if options.json:
        screen.write(json.dumps(_record(report), indent=2, ensure_ascii=False) + "\n")
        return FINE if report.ok else WRONG
    called = _called(session, options)
    for issue in report.issues:
        screen.line(finding(issue, called))
    for edge in inferred(report):
        screen.line(f"{called}: note: {edge}")
    screen.line(f"{called}: {counted(report)}")
    return FINE if report.ok else WRONG


def run(options: argparse.Namespace) -> int:
    """Check the plan and run it; the record is also written for a run that is red."""
    on_output = options.json == "-"
    for file in (options.html, None if on_output or options.json is None else Path(options.json)):
        if file is not None:
            check_writable(file)
    workbench = workbench_of(options)
    session = _session(workbench, options, unasked={})
    called = _called(session, options)
    if isinstance(workbench, Unequipped):
        for issue in session.report.issues:
            if issue.code == "tool_missing":
                errors().line(finding(issue, called))
        raise CommandError(
            "nobody named the tools of the plan",
            hint="add --tools MODULE, or [tool.planbench] tools = [...] to pyproject.toml",
        )
    _refuse_invalid(session, called)
    for issue in session.report.issues:
        errors().line(finding(issue, called))
    screen = errors() if on_output else output()
    finished, signalled = execute(workbench, session, screen, strict=options.strict)
    code = verdict(finished, strict=options.strict, allow_errors=options.allow_errors)
    tell_the_rest(workbench, finished, options)
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
    session = _session(workbench_of(options), options)
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
    block(f"{called}: {counted(session.report)}", findings(session.report, called))
    return WRONG


def _session(
    workbench: Workbench, options: argparse.Namespace, unasked: Mapping[str, Any] | None = None
) -> PlanSession:
    """Open the plan; ``unasked`` are its parameters where none are given.

    With None it is checked with its parameters left open.
    """
    source = plan_source(options.plan, workbench.plans)
    return workbench.session(source, parameters(options.param) or unasked)


def _with_defaults(workbench: Workbench, session: PlanSession) -> ValidationReport:
    """Check a plan that needs no value as it would be run: what a default breaks shows then."""
    if session.plan is None or not session.plan.params:
        return session.report
    report = workbench.check(session.source, {})
    wanting = any(issue.code == "missing_param" for issue in report.issues)
    return session.report if wanting else report


def _called(session: PlanSession, options: argparse.Namespace) -> str:
    """Give what findings name as their place: the file of the plan where there is one."""
    return str(session.source) if isinstance(session.source, Path) else options.plan


def _refuse_invalid(session: PlanSession, called: str) -> None:
    if not session.report.ok:
        raise PlanInvalid(session.report.issues, path=called, name=session.name)


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
