"""The workbench of a command: with the tools that were named, or with none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planbench.cli.toolsources import collect
from planbench.errors import CommandError
from planbench.files import with_lock
from planbench.validation import check_plan
from planbench.workbench import Workbench

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from planbench.plan.model import ExecutionPlan
    from planbench.validation import ValidationReport
    from planbench.validation.given import Buildable


class Unequipped(Workbench):
    """A workbench for which nobody named tools: it checks everything but the tools."""

    def check(
        self,
        source: str | Path | Mapping[str, Any] | ExecutionPlan | Buildable,
        params: Mapping[str, Any] | None = None,
    ) -> ValidationReport:
        """Check a plan; the report says that the tools are unknown, and where they live."""
        return with_lock(
            check_plan(source, None, params=params, env=self.env), None, self.plans, source
        )


def workbench_of(options: argparse.Namespace) -> Workbench:
    """Make the workbench of a command: with the tools that were named, and its plans folder."""
    env = _env(options.env)
    registry = collect(options.tools, Path.cwd())
    store = getattr(options, "store", None)
    if registry is None:
        return Unequipped(plans_dir=options.plans_dir, env=env, store=store)
    delegate = getattr(options, "delegate", None)  # only commands that run a plan have it
    return Workbench(
        registry, plans_dir=options.plans_dir, env=env, store=store, delegate_llm=delegate
    )


def _env(written: list[str]) -> dict[str, list[str]]:
    """Read ``NAME=TOOL``: which tool may have which variable."""
    found: dict[str, list[str]] = {}
    for one in written:
        name, equals, tool = one.partition("=")
        if not equals or not name.isidentifier() or not tool:
            # what was written instead may be the secret, and is not repeated
            raise CommandError(
                "--env wants a variable and the tool that may have it",
                hint="write --env NAME=TOOL, as GITHUB_TOKEN=github_*",
            )
        found.setdefault(name, []).append(tool)
    return found
