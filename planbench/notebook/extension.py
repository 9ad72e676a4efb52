"""The IPython extension: ``%load_ext planbench`` connects a shell to the kernel's workbench."""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ToolError
from planbench.notebook.completer import plan_matcher
from planbench.notebook.display import static_bundle
from planbench.notebook.magics import PlanMagics
from planbench.notebook.transformer import PlanTransformer
from planbench.plan.builder import Plan
from planbench.plan.model import ExecutionPlan
from planbench.runtime import Run
from planbench.tools import Tool, observe_definitions
from planbench.workbench import get_workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from IPython.core.interactiveshell import InteractiveShell

_MISSING: Final = object()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Bring planbench into a shell; a second time changes nothing."""
    if shell not in _loaded:
        extension = PlanExtension(shell)
        _loaded[shell] = extension
        extension.load()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take planbench out of a shell; registered tools, plans and runs stay."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.unload()


class Definitions:
    """Keeps the registry in step with the names that the notebook defines.

    A tool made with ``@tool`` in the notebook is registered at once. After each cell
    the names are compared with those before it: a tool that lost its name goes, one
    that got it back returns, and a plain function that was added by its name and
    written anew replaces the old one.
    """

    def __init__(self, namespace: Callable[[], Mapping[str, Any]]) -> None:
        self._namespace = namespace
        self._bound: dict[str, Tool] = {}
        self._added: dict[str, tuple[Any, Tool]] = {}

    def observe(self, tool: Tool) -> None:
        """Register a tool that the notebook has just defined."""
        if tool.module == "__main__":
            get_workbench().registry.register(tool)

    def follow(self, name: str, thing: Any, tool: Tool) -> None:
        """Watch a name of the notebook whose plain function was registered as a tool."""
        self._added[name] = (thing, tool)

    def refresh(self, *_: object) -> None:
        """Compare the names with those that were there before; cheap where nothing changed."""
        names = self._namespace()
        self._refresh_marked(names)
        if self._added:
            self._refresh_added(names)

    def _refresh_marked(self, names: Mapping[str, Any]) -> None:
        registry = get_workbench().registry
        now = {
            name: value
            for name, value in names.items()
            if isinstance(value, Tool)
            and value.module == "__main__"
            and not name.startswith("_")
            and not value.needs_object
        }
        before, self._bound = self._bound, now
        for name, tool in before.items():
            if now.get(name) is tool or registry.get(tool.name) is not tool:
                continue
            home = {tool.name, getattr(tool.function, "__name__", tool.name)}
            if name in home or all(value is not tool for value in now.values()):
                registry.remove(tool.name)
        for name, tool in now.items():
            if before.get(name) is not tool and registry.get(tool.name) is not tool:
                registry.register(tool)

    def _refresh_added(self, names: Mapping[str, Any]) -> None:
        registry = get_workbench().registry
        for name, (thing, tool) in list(self._added.items()):
            value = names.get(name, _MISSING)
            if value is thing:
                continue
            del self._added[name]
            if registry.get(tool.name) is not tool:
                continue
            if inspect.isfunction(value):
                self._replace(name, value, tool)
            else:
                registry.remove(tool.name)

    def _replace(self, name: str, function: Any, tool: Tool) -> None:
        registry = get_workbench().registry
        try:
            new = Tool.from_function(function)
        except ToolError as error:
            registry.remove(tool.name)
            sys.stderr.write(f"planbench: {name} is no tool any more: {error}\n")
            return
        if new.name != tool.name:
            registry.remove(tool.name)
        registry.register(new)
        self.follow(name, function, new)


class PlanExtension:
    """What one shell gets, and how each piece is taken out again."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.definitions = Definitions(lambda: shell.user_ns)
        self.magics = PlanMagics(shell, self.definitions)
        self.transformer = PlanTransformer(shell)
        self._stop_observing: Callable[[], None] | None = None

    def load(self) -> None:
        """Connect everything."""
        shell = self.shell
        shell.register_magics(self.magics)
        # In front, since IPython's cleanup would strip blanks and prompts from the bodies.
        shell.input_transformers_cleanup.insert(0, self.transformer)
        shell.Completer.custom_matchers.append(plan_matcher)
        self._formatter().for_type(ExecutionPlan, _draw)
        self._formatter().for_type(Plan, _draw_unfinished)
        self._formatter().for_type(Run, _draw_run)
        self._takeover().for_type(Run, self._show_live)
        self._stop_observing = observe_definitions(self.definitions.observe)
        shell.events.register("post_run_cell", self.definitions.refresh)
        self.definitions.refresh()

    def unload(self) -> None:
        """Disconnect everything."""
        shell = self.shell
        if self._stop_observing is not None:
            self._stop_observing()
        shell.events.unregister("post_run_cell", self.definitions.refresh)
        shell.input_transformers_cleanup.remove(self.transformer)
        if plan_matcher in shell.Completer.custom_matchers:
            shell.Completer.custom_matchers.remove(plan_matcher)
        self._formatter().pop(ExecutionPlan, None)
        self._formatter().pop(Plan, None)
        self._formatter().pop(Run, None)
        self._takeover().pop(Run, None)
        for kind in ("line", "cell"):
            for name in ("plan", "plan_objective"):
                shell.magics_manager.magics[kind].pop(name, None)
        shell.magics_manager.registry.pop(PlanMagics.__name__, None)
        configurables: list[Any] = shell.configurables
        configurables.remove(self.magics)

    def _show_live(self, run: Run) -> None:
        """Show the panel of a run that is going on; one that has ended is drawn as it ended."""
        if run.finished:
            raise NotImplementedError  # how a formatter says that the others should do it
        self.magics.show_run(run)

    def _formatter(self) -> Any:
        formatter: Any = self.shell.display_formatter  # IPython does not state its types
        return formatter.mimebundle_formatter

    def _takeover(self) -> Any:
        formatter: Any = self.shell.display_formatter
        return formatter.ipython_display_formatter


_loaded: weakref.WeakKeyDictionary[InteractiveShell, PlanExtension] = weakref.WeakKeyDictionary()


def _draw_unfinished(plan: Plan, **_: object) -> dict[str, Any]:
    """Draw a plan that is still being built, with its issues."""
    return _draw(plan.to_yaml())


def _draw(plan: ExecutionPlan | str, **_: object) -> dict[str, Any]:
    """Draw a plan that is the last expression of a cell."""
    session = get_workbench().session(plan)
    try:
        return static_bundle(session)
    finally:
        session.close()


def _draw_run(run: Run, **_: object) -> dict[str, Any]:
    """Draw a run that is the last expression of a cell, as it stands."""
    origin = get_workbench().origins.get(run)
    return static_bundle(run, inferred=None if origin is None else origin.inferred)
