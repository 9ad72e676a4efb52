"""Where a plan appears in a notebook: the live panel, and the picture that is saved.

Lab shows "model not found" for a widget view whose kernel is gone and does not fall
back to what else the output holds. So in Lab and Notebook 7 the output of the cell
is never a widget view: it is the static form, which stays right on disk, and the
panel's script shows the live panel in its place for as long as the kernel lives, in
pinned copies of the output too. Other front ends get a widget view, which makes way
for the static form when a run ends. Where nobody looks there is the static form alone.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Literal

from IPython.core.getipython import get_ipython
from IPython.display import display as _display

from planbench.notebook import wire
from planbench.notebook.bundle import static_bundle
from planbench.notebook.panel import PlanPanel

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.session import PlanSession

__all__ = ["PlanDisplay", "front_end", "static_bundle"]

FrontEnd = Literal["none", "lab", "other"]
STATIC_VARIABLE: Final = "PLANBENCH_STATIC"
SETTLED: Final = 0.4
display: Final[Any] = _display  # IPython does not state its types

_cells: Final[dict[str, list[PlanDisplay]]] = {}


class PlanDisplay:
    """One appearance of a session in one cell.

    ``static`` leaves the live panel out. ``previews`` puts the first rows of the
    artifacts into what is saved; without it no payload is.
    """

    def __init__(self, *, static: bool | None = None, previews: bool = False) -> None:
        self._static = static or os.environ.get(STATIC_VARIABLE, "") not in ("", "0")
        self._previews = previews
        self.session: PlanSession | None = None
        self.request: str | None = None
        self.panel: PlanPanel | None = None
        self._front_end: FrontEnd = "none"
        self._handle: Any = None
        self._leave: Callable[[], None] | None = None
        self._timer: Any = None
        self._edition = 0

    def show(self, session: PlanSession) -> None:
        """Put the panel, or the static form, into the cell that runs now."""
        self.session = session
        self._front_end = "none" if self._static else front_end()
        if self._front_end == "none":
            self._handle = _show(self._bundle())
            return
        _take_cell(self)
        self.panel = panel = PlanPanel(session)
        if self._front_end == "lab":
            # The layout is on its way; what is saved gets its drawing when the panel has it.
            self._handle = _show(self._bundle(drawn=False))
            panel.observe(self._settle, "svg")
        else:
            self._handle = display(panel, display_id=True)
        self._leave = session.subscribe(self._hear)

    def finish(self) -> None:
        """Bring what is saved up to date: when a run has ended, or failed to begin."""
        self._unplan()
        if self._handle is None or self.session is None:
            return
        if self._front_end == "other":
            if self.session.run is None or wire.is_live(self.session.run):
                return  # nothing has ended: the live panel is what there is to see
            self.close()
        self._edition += 1
        self._handle.update(self._bundle(), raw=True)
        if self._front_end == "none":
            self.await_end()

    def await_end(self) -> None:
        """Save anew at the end of a run that the cell did not wait for, where no panel does so.

        An interrupted cell waits only so long for a tool that does not let itself be
        cancelled; without a panel nobody else would tell that the run has ended since.
        """
        if self.session is None or self._front_end != "none":
            return
        if not wire.is_live(self.session.run):
            self.close()
        elif self._leave is None:
            self._leave = self.session.subscribe(self._hear_end)

    def _hear_end(self, kind: str) -> None:
        if kind == "finished":
            self.finish()

    def close(self) -> None:
        """Close the live panel; what is saved stays."""
        self._unplan()
        if self._leave is not None:
            self._leave()
            self._leave = None
        if self.panel is not None:
            self.panel.close()
            self.panel = None

    def _bundle(self, *, drawn: bool = True) -> dict[str, str]:
        assert self.session is not None
        key = self.panel.key if self.panel is not None and self._front_end == "lab" else None
        return static_bundle(self.session, key=key, drawn=drawn, previews=self._previews)

    def _hear(self, kind: str) -> None:
        panel = self.panel
        if panel is None:
            return
        # Where no script takes the place over, what is saved is also what is seen during a run.
        unseen = self._front_end == "lab" and not panel.seen
        if kind != "event" or unseen:
            panel.guard(self._settle)

    def _settle(self, _: object = None) -> None:
        """Save anew in a moment: many tools may change at once, and a run may be ending."""
        panel = self.panel
        if panel is None or self._timer is not None:
            return
        if panel.loop is None:
            self.finish()
        else:
            self._timer = panel.loop.call_later(SETTLED, panel.guard, self._save)

    def _save(self) -> None:
        self._timer = None
        if self._front_end == "other":
            self.finish()
        elif self.panel is not None:
            self.panel.keep(self._save_beside())

    async def _save_beside(self) -> None:
        """Save while other work goes on: a large drawing takes longer than the loop may be held."""
        self._edition = edition = self._edition + 1
        bundle = await asyncio.get_running_loop().run_in_executor(None, self._bundle)
        if edition == self._edition:
            self._handle.update(bundle, raw=True)

    def _unplan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def front_end() -> FrontEnd:
    """Say who looks at the cell that runs now: nobody, Lab or Notebook 7, or another front end.

    No front end names itself, so this goes by what their requests carry. nbclient,
    and with it nbmake, papermill and nbconvert, allows no input from a person; all
    interactive front ends do. Of these only Lab and Notebook 7 send ``deletedCells``.
    """
    request = _request()
    if request.get("msg_type") != "execute_request":
        return "other" if request else "none"
    if not request["content"].get("allow_stdin"):
        return "none"
    return "lab" if "deletedCells" in request["metadata"] else "other"


def _request() -> dict[str, Any]:
    """Give the message that the kernel works on; empty where there is no kernel."""
    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return {}
    request: dict[str, Any] = kernel.get_parent()
    return request


def _show(bundle: dict[str, str]) -> Any:
    return display(bundle, raw=True, display_id=True)


def _take_cell(shown: PlanDisplay) -> None:
    """Close the panels that an earlier run of this cell, or a cell deleted since, left open."""
    request = _request()
    metadata = request.get("metadata", {})
    cell = metadata.get("cellId")
    if cell is None:
        return
    shown.request = request["msg_id"]
    for other in (cell, *metadata.get("deletedCells", ())):
        for old in _cells.pop(other, ()):
            if old.request == shown.request:
                _cells.setdefault(cell, []).append(old)
            else:
                old.close()
    _cells.setdefault(cell, []).append(shown)
