"""``%%plan`` and ``%plan``: a plan is read, checked, drawn, run, and what is red fails."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    magics_class,
    no_var_expand,
)
from traitlets import Bool, Dict, Unicode, observe

from planbench.errors import PlanInvalid
from planbench.files import PlanFileStore
from planbench.llm import Extracted, extract
from planbench.llm.pricing import checked_prices
from planbench.notebook.arguments import (
    HelpAsked,
    cell_parser,
    read_parameters,
    run_parser,
    split_line,
    variable_name,
)
from planbench.notebook.authoring import author, objective_parser
from planbench.notebook.commands import COMMANDS, overview, unknown_command, usage
from planbench.notebook.display import PlanDisplay
from planbench.notebook.endings import cancelled, judge, out_of_reach
from planbench.notebook.interrupts import ctrl_c_cancels
from planbench.notebook.sources import CellTexts, algorithm_of, plan_to_run
from planbench.plan.issues import ValidationIssue
from planbench.runtime import Run
from planbench.workbench import get_workbench

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from IPython.core.interactiveshell import InteractiveShell

    from planbench.notebook.extension import Definitions
    from planbench.runtime.algorithm import Algorithm
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
    planner = Unicode("", help="The model that writes plans, as provider:model.").tag(config=True)
    delegate = Unicode("", help="The model that delegate nodes ask, as provider:model.").tag(
        config=True
    )
    store = Unicode(
        "", help="Where runs are kept: a URL, or memory; as it is .planbench of this folder."
    ).tag(config=True)
    prices = Dict(help="Price per million tokens by model: {model: (input, output)}.").tag(
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

    @observe("planner")
    def _planner_changed(self, change: dict[str, Any]) -> None:
        self.workbench.planner = change["new"] or None

    @observe("delegate")
    def _delegate_changed(self, change: dict[str, Any]) -> None:
        self.workbench.delegate = change["new"] or None

    @observe("store")
    def _store_changed(self, change: dict[str, Any]) -> None:
        self.workbench.remember(change["new"] or None)

    @observe("prices")
    def _prices_changed(self, change: dict[str, Any]) -> None:
        self.workbench.prices = checked_prices(change["new"])

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
        show, resume, repair, open, status, artifacts, cancel, prompt.
        """
        try:
            if cell is None:
                return self._perform(split_line(line))
            options = cell_parser().read(line)
            if options.run:
                raise out_of_reach("%%plan --run", self.shell)
            self._check_cell(options, cell)
        except HelpAsked as asked:
            self._show_text(str(asked))
        return None

    @no_var_expand
    @cell_magic
    def plan_objective(self, line: str, cell: str) -> None:
        """Have a model write a plan for the objective in the cell.

        ``%%plan_objective [VAR] [--model M] [--tools PATTERN] [--revise [PLAN]] [--name N]
        [--static]`` shows the answer as it comes, checks it, keeps it in plans/drafts and
        puts it into the next cell as ``%%plan``. VAR gets the plan. With ``--revise`` the
        cell says what should change in a plan, and the difference is drawn.
        """
        del cell
        try:
            objective_parser().read(line)
        except HelpAsked as asked:
            self._show_text(str(asked))
            return
        raise out_of_reach(
            "%%plan_objective",
            self.shell,
            "the model",
            "await planbench.PlanPlanner(model, registry).author(objective)",
        )

    # -- what the transformer calls ---------------------------------------------------

    async def cell(self, line: str, body: str) -> None:
        """Do what a ``%%plan`` cell says, in the cell; raises what is red."""
        try:
            options = cell_parser().read(line)
        except HelpAsked as asked:
            self._show_text(str(asked))
            return
        await self.workbench.recall()
        session, shown = self._check_cell(options, body)
        if options.run and session.report.ok:
            await self._execute(session, shown, options)

    async def objective(self, line: str, body: str) -> None:
        """Do what a ``%%plan_objective`` cell says, in the cell; raises what is red."""
        try:
            await author(self, line, body, static=self.static)
        except HelpAsked as asked:
            self._show_text(str(asked))

    async def line(self, line: str) -> Any:
        """Do what a line such as ``%plan run NAME`` says, and wait; gives a table, but no Run."""
        found = await self.value(line)
        return None if isinstance(found, Run) else found

    async def value(self, line: str) -> Any:
        """Do what the right side of ``x = %plan run NAME`` says, and give the Run, or the table."""
        command, *words = split_line(line) or [""]
        wait = COMMANDS[command].wait if command in COMMANDS else None
        try:
            if not command:
                await self.workbench.recall()
                return self._perform([])
            if command == "run":
                return await self._run(words)
            if wait is None:
                raise unknown_command(command)
            return await wait(self, words)
        except HelpAsked as asked:
            self._show_text(str(asked))
            return None

    async def _run(self, words: list[str]) -> Run | None:
        options = run_parser().read(words)
        await self.workbench.recall()
        algorithm = algorithm_of(self, options.name)
        if algorithm is not None:
            return await self._perform_algorithm(algorithm, options)
        session = self._session(plan_to_run(self, options.name), options, runs=True)
        shown = self._show(session, static=options.static or self.static)
        _raise_invalid(session, options)
        return await self._execute(session, shown, options) if session.report.ok else None

    # -- for the subcommands ----------------------------------------------------------

    def show_run(self, run: Run) -> None:
        """Put the panel of a run into the cell, live or as it ended."""
        session = self.workbench.session(run.plan)
        session.follow(run)
        self._show(session, static=self.static).await_end()

    async def continue_run(
        self, session: PlanSession, begin: Callable[[], Awaitable[Run]], options: Namespace
    ) -> Run:
        """Show a session, begin its run, wait for the end and raise what is red."""

        async def start() -> Run:
            run = await begin()
            session.follow(run)
            return run

        shown = self._show(session, static=options.static or self.static)
        return await self._execute(session, shown, options, start)

    def show_session(self, session: PlanSession, *, static: bool) -> None:
        """Put the panel of a plan into the cell."""
        self._show(session, static=static)

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
            raise out_of_reach(f"%plan {name}", self.shell)
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

    async def _perform_algorithm(self, algorithm: Algorithm, options: Namespace) -> Run:
        """Run an algorithm of the notebook; its panel draws the steps that it plans."""
        inputs = read_parameters(options.param, options.params, self.shell.user_ns)
        run = await self.workbench.start(algorithm, inputs)
        session = self.workbench.session(run.plan)
        session.follow(run)
        shown = self._show(session, static=options.static or self.static)
        try:
            await _end(run)
        except asyncio.CancelledError:
            raise cancelled(run) from None
        finally:
            shown.finish()
        judge(run, allow_errors=options.allow_errors, strict=False)
        return run

    async def _execute(
        self,
        session: PlanSession,
        shown: PlanDisplay,
        options: Namespace,
        start: Callable[[], Awaitable[Run]] | None = None,
    ) -> Run:
        noted = self.workbench.note
        try:
            run = await (start or session.start)()
            if self.workbench.note != noted:
                sys.stderr.write(f"planbench: {self.workbench.note}\n")
            if getattr(options, "var", None) is not None:
                self.shell.user_ns[options.var] = run
            run.strict = options.strict or self.strict
            await _end(run)
        except asyncio.CancelledError:
            raise cancelled(session.run) from None
        finally:
            shown.finish()
        if run.saved_as:
            sys.stderr.write(f"planbench: {run.saved_as}\n")
        judge(run, allow_errors=options.allow_errors, strict=options.strict or self.strict)
        not_locked = await session.locked()
        if not_locked is not None:
            sys.stderr.write(f"planbench: {not_locked}\n")
        return run


def _plan_text(body: str) -> Extracted:
    """Give the plan of a cell, also out of a pasted model answer."""
    if not body.strip():
        issue = ValidationIssue(
            code="no_json", message="the cell is empty", fix="%plan new gives a plan to fill in"
        )
        raise PlanInvalid([issue])
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
