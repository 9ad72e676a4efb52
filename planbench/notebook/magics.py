"""``%%plan`` and ``%plan``: a plan is read, checked, drawn, run, and what is red fails."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Dict, Unicode, observe

from planbench.errors import CommandError, PlanInvalid, RunCancelled, RunFailed
from planbench.files import PlanFileStore
from planbench.llm import Extracted, extract
from planbench.notebook.arguments import (
    HelpAsked,
    cell_parser,
    read_parameters,
    run_parser,
    split_line,
    variable_name,
)
from planbench.notebook.commands import COMMANDS, overview, unknown_command, usage
from planbench.notebook.display import PlanDisplay
from planbench.notebook.interrupts import ctrl_c_cancels
from planbench.notebook.sources import CellTexts, plan_to_run
from planbench.workbench import get_workbench

if TYPE_CHECKING:
    from argparse import Namespace
    from IPython.core.interactiveshell import InteractiveShell

    from planbench.notebook.extension import Definitions
    from planbench.runtime import Run
    from planbench.session import PlanSession
    from planbench.tools import Tool
    from planbench.workbench import Workbench

CANCEL_SECONDS: Final = 0.8
"""How long an interrupted cell waits until its run is on record as cancelled."""


@magics_class
class PlanMagics(Magics):
    """The magics of one shell; ``%config PlanMagics`` shows what can be set."""

    shell: InteractiveShell

    plans_dir = Unicode("plans", help="The folder of the plan files.").tag(config=True)
    strict = Bool(default_value=False, help="Lost items fail a cell too.").tag(config=True)
    static = Bool(default_value=False, help="Pictures in place of panels.").tag(config=True)
    env = Dict(help='Which tools may receive which secrets: {"TOKEN": ["github_*"]}.').tag(
        config=True
    )

    def __init__(self, shell: InteractiveShell, definitions: Definitions) -> None:
        super().__init__(shell)
        self.definitions = definitions
        self.cells = CellTexts()
        self._shown: list[PlanDisplay] = []

    @property
    def workbench(self) -> Workbench:
        """The kernel's workbench."""
        return get_workbench()

    @observe("plans_dir")
    def _plans_dir_changed(self, change: dict[str, Any]) -> None:
        self.workbench.plans = PlanFileStore(change["new"])

    @observe("env")
    def _env_changed(self, change: dict[str, Any]) -> None:
        self.workbench.env = dict(change["new"]) or None
        for session in tuple(self.workbench.sessions):
            session.validate()

    @no_var_expand
    @line_cell_magic
    def plan(self, line: str, cell: str | None = None) -> Any:
        """Check, draw and run plans of tool calls.

        ``%%plan [VAR] [--param K=V | K=@VARIABLE] [--params VAR] [--run] [--strict]
        [--allow-errors] [--static]`` reads the plan in the cell (YAML or JSON), checks
        it against the tools and shows its panel; with ``--run`` it runs and the cell
        waits. VAR gets the plan, or with ``--run`` the Run.

        ``%plan`` alone says how things stand and what may come next; ``%plan -h`` lists
        the subcommands: tools, list, load, save, history, diff, set, rename, new, run, runs,
        show, open, status, cancel.
        """
        try:
            if cell is None:
                return self._perform(split_line(line))
            options = cell_parser().read(line)
            if options.run:
                raise _out_of_reach("%%plan --run", self.shell)
            self._check_cell(options, cell)
        except HelpAsked as asked:
            self._show_text(str(asked))
        return None

    # -- what the transformer calls ---------------------------------------------------

    async def cell(self, line: str, body: str) -> None:
        """Do what a ``%%plan`` cell says, in the cell; raises what is red."""
        try:
            options = cell_parser().read(line)
        except HelpAsked as asked:
            self._show_text(str(asked))
            return
        session, shown = self._check_cell(options, body)
        if options.run and session.report.ok:
            await self._execute(session, shown, options)

    async def line(self, line: str) -> None:
        """Do what a line such as ``%plan run NAME`` says, and wait."""
        await self.value(line)

    async def value(self, line: str) -> Run | None:
        """Do what the right side of ``x = %plan run NAME`` says, and give the Run."""
        command, *words = split_line(line)
        if command != "run":
            raise unknown_command(command)
        try:
            options = run_parser().read(words)
        except HelpAsked as asked:
            self._show_text(str(asked))
            return None
        session = self._session(plan_to_run(self, options.name), options, runs=True)
        shown = self._show(session, static=options.static or self.static)
        _raise_invalid(session, options)
        return await self._execute(session, shown, options) if session.report.ok else None

    # -- for the subcommands ----------------------------------------------------------

    def show_run(self, run: Run) -> None:
        """Put the panel of a run into the cell, live or as it ended."""
        session = self.workbench.session(run.plan)
        session.follow(run)
        self._show(session, static=self.static)

    def publish(self, data: dict[str, str]) -> None:
        """Put something into the output of the cell, in one or several forms."""
        publisher: Any = self.shell.display_pub  # IPython does not state its types
        publisher.publish(data)

    def follow(self, name: str, function: Any, tool: Tool) -> None:
        """Watch the name of a plain function that became a tool."""
        self.definitions.follow(name, function, tool)

    def _perform(self, words: list[str]) -> Any:
        if not words:
            self._show_text(overview(self.workbench))
            return None
        name, *rest = words
        if name in {"-h", "--help", "help"}:
            self._show_text(usage())
            return None
        if name not in COMMANDS:
            raise unknown_command(name)
        act = COMMANDS[name].act
        if act is None:
            raise _out_of_reach(f"%plan {name}", self.shell)
        result = act(self, rest)
        if isinstance(result, str):
            self._show_text(result)
            return None
        return result

    # -- the work ---------------------------------------------------------------------

    def _show_text(self, text: str) -> None:
        self.publish({"text/plain": text.rstrip()})

    def _session(self, source: Any, options: Namespace, *, runs: bool) -> PlanSession:
        params = read_parameters(options.param, options.params, self.shell.user_ns)
        return self.workbench.session(source, params if params or runs else None)

    def _check_cell(self, options: Namespace, body: str) -> tuple[PlanSession, PlanDisplay]:
        name = None if options.var is None else variable_name(options.var)
        self.cells.latest = body
        found = _plan_text(body)
        session = self._session(found.aligned, options, runs=options.run)
        self.cells.keep(found, session.plan)
        shown = self._show(session, static=options.static or self.static)
        _raise_invalid(session, options)
        if name is not None:
            self.shell.user_ns[name] = None if options.run else session.plan
        return session, shown

    def _show(self, session: PlanSession, *, static: bool) -> PlanDisplay:
        self._close_unseen()
        shown = PlanDisplay(static=static)
        shown.show(session)
        self._shown.append(shown)
        return shown

    def _close_unseen(self) -> None:
        """Let go of the sessions whose panel has made way, or was never there."""
        seen = []
        for shown in self._shown:
            session = shown.session
            if shown.panel is not None or (session and session.run and not session.run.finished):
                seen.append(shown)
            elif session is not None:
                session.close()
        self._shown = seen

    async def _execute(self, session: PlanSession, shown: PlanDisplay, options: Namespace) -> Run:
        try:
            run = await session.start()
            if getattr(options, "var", None) is not None:
                self.shell.user_ns[options.var] = run
            run.strict = options.strict or self.strict
            await _end(run)
        except asyncio.CancelledError:
            raise _cancelled(session.run) from None
        finally:
            shown.finish()
        if run.saved_as:
            sys.stderr.write(f"planbench: {run.saved_as}\n")
        _judge(run, allow_errors=options.allow_errors, strict=options.strict or self.strict)
        not_locked = await session.locked()
        if not_locked is not None:
            sys.stderr.write(f"planbench: {not_locked}\n")
        return run


def _plan_text(body: str) -> Extracted:
    """Give the plan of a cell, also out of a pasted model answer."""
    found = extract(body)
    if found.issues:
        raise PlanInvalid(found.issues)
    return found


def _raise_invalid(session: PlanSession, options: Namespace) -> None:
    if not session.report.ok and not options.allow_errors:
        raise PlanInvalid(session.report.issues, name=session.name)


async def _end(run: Run) -> None:
    """Wait for the end of a run; whoever is interrupted here leaves no run behind."""
    waiter = asyncio.ensure_future(run.result())
    try:
        with ctrl_c_cancels():
            await asyncio.shield(waiter)
    except asyncio.CancelledError:
        run.cancel()
        # Bounded, since a tool may not let itself be cancelled: the cell has to end.
        await asyncio.wait([waiter], timeout=CANCEL_SECONDS)
        raise


def _judge(run: Run, *, allow_errors: bool, strict: bool) -> None:
    """Raise for what is red; say what was lost."""
    if allow_errors:
        return
    match run.verdict(strict=strict):
        case "cancelled":
            raise _cancelled(run)
        case "red":
            text = f"plan {run.plan.name!r} is {run.status}\n{run.failure_text()}"
            raise RunFailed(text.rstrip(), manifest=run.manifest())
        case "lost":
            sys.stderr.write(f"planbench: items were lost\n{run.failure_text()}\n")


def _cancelled(run: Run | None) -> RunCancelled:
    if run is None:
        return RunCancelled("the run was cancelled before it began")
    whole = sum(node.status == "ok" for node in run.state.nodes.values())
    return RunCancelled(
        f"run {run.run_id} of plan {run.plan.name!r} was cancelled:"
        f" {whole} of {run.nodes_total} nodes had finished",
        hint=f"what they stored is kept; see %plan status {run.run_id}",
    )


def _out_of_reach(form: str, shell: InteractiveShell) -> CommandError:
    if not shell.autoawait:
        return CommandError(f"{form} waits for the run, and %autoawait is off: write %autoawait on")
    return CommandError(
        f"{form} waits for the run and cannot do so from here: put it into a cell of its own, not under"
        " another magic or in a plain function, in a cell after %load_ext planbench; in a script"
        " write planbench.run_sync(plan)"
    )
