"""A subcommand of ``%plan``: what it is made of, and what it can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from planbench.files.drafts import FOLDER as DRAFTS
from planbench.notebook.arguments import LineParser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from IPython.core.interactiveshell import InteractiveShell

    from planbench.notebook.listing import Listing
    from planbench.notebook.sources import CellTexts
    from planbench.runtime import Run
    from planbench.tools import Tool
    from planbench.workbench import Workbench


class Notebook(Protocol):
    """What a subcommand can reach."""

    @property
    def shell(self) -> InteractiveShell:
        """The shell of the notebook."""
        ...

    @property
    def workbench(self) -> Workbench:
        """The kernel's workbench."""
        ...

    def show_run(self, run: Run) -> None:
        """Put the panel of a run into the cell."""
        ...

    @property
    def cells(self) -> CellTexts:
        """The texts of the latest ``%%plan`` cells."""
        ...

    def publish(self, data: dict[str, str]) -> None:
        """Put something into the output of the cell."""
        ...

    def follow(self, name: str, function: Any, tool: Tool) -> None:
        """Watch the name of a plain function that became a tool."""
        ...


class Command(NamedTuple):
    """A subcommand: what it takes, what it is for, and what it does, where that needs no wait.

    ``parser`` knows its flags. ``words`` names what may stand at a place of its line: it is
    given the words before, and the one that is being written. ``wait`` is what it does where
    a cell can wait for it; ``act`` then stands for it where that cannot be.
    """

    takes: str
    summary: str
    act: Callable[[Notebook, list[str]], Any] | None = None
    parser: Callable[[], LineParser] | None = None
    words: Callable[[Workbench, list[str], str], Iterable[str]] | None = None
    wait: Callable[[Any, list[str]], Awaitable[Any]] | None = None

    def candidates(self, workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
        """Name what may stand at a place behind the subcommand."""
        if word.startswith("-"):
            return () if self.parser is None else self.parser().flags()
        if self.words is not None:
            return self.words(workbench, before, word)
        if "NAME" in self.takes:
            return plan_words(workbench, word)
        if "RUN" in self.takes:
            return run_words(workbench)
        return list(workbench.registry.names()) if "TOOL" in self.takes else []


def plan_words(workbench: Workbench, word: str) -> list[str]:
    """Name the plans of the folder, behind an ``@`` the versions of one, behind ``drafts`` those."""
    if word.startswith(DRAFTS):
        return workbench.plans.drafts.names()
    names = plan_names(workbench)
    name, at, _ = word.partition("@")
    if not at or name not in names:
        return names
    return [f"{name}@{version.version}" for version in workbench.plans.history(name)]


def run_words(workbench: Workbench) -> list[str]:
    """Name the runs of this kernel and those on record as far as they were looked at, the latest first."""
    mine = [run.run_id for run in reversed(workbench.runs)]
    recorded = [record.run_id for record in reversed(workbench.recollection.records)]
    return list(dict.fromkeys([*mine, *recorded]))


def plan_names(workbench: Workbench) -> list[str]:
    """Name the plans of the plans folder."""
    return list(workbench.plans.list())


def frame(rows: list[tuple[Any, ...]], columns: list[str]) -> Listing:
    """Make the table that a subcommand answers with."""
    from planbench.notebook.listing import Listing  # noqa: PLC0415 - pandas takes half a second to load

    return Listing(rows, columns=columns)


def one(words: list[str], command: str, what: str, summary: str, *, optional: bool = False) -> Any:
    """Read the line of a subcommand that takes one word."""
    parser = LineParser(f"%plan {command}", summary)
    parser.add_argument("name", metavar=what, nargs="?" if optional else None)
    return parser.read(words).name
