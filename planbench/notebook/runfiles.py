"""``%plan open``: a run that somebody saved to a file, as the picture of how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError
from planbench.notebook.arguments import LineParser, variable_name
from planbench.notebook.bundle import static_bundle
from planbench.runtime.run_format import ENDING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planbench.notebook.command import Notebook
    from planbench.workbench import Workbench

_SHOWN: Final = 50


def open_file(notebook: Notebook, words: list[str]) -> None:
    """Show a saved run, and put it into a variable; nothing of it is called."""
    from planbench.runtime.saved_run import open_run  # noqa: PLC0415 - few notebooks read a run file

    options = open_parser().read(words)
    name = None if options.var is None else variable_name(options.var)
    path = Path(options.file).expanduser()
    if not path.exists():
        raise CommandError(
            f"there is no file {options.file}", hint="name a file that run.save() wrote"
        )
    saved = open_run(path)
    note = f"Run {saved.run_id} as it was saved to {path.name}; it is not live."
    bundle: dict[str, Any] = static_bundle(saved.run, note=" ".join([note, *saved.notes()[:5]]))
    notebook.publish(bundle)
    if name is None:
        saved.close()
    else:
        notebook.shell.user_ns[name] = saved


def open_parser() -> LineParser:
    """Make the parser for what stands behind ``%plan open``."""
    parser = LineParser("%plan open", "show a run that was saved to a file")
    parser.add_argument("file", metavar="FILE", help=f"what run.save() wrote, as failed{ENDING}")
    parser.add_argument(
        "var", metavar="VAR", nargs="?", help="gets the saved run: its run, memory, tools"
    )
    return parser


def open_words(workbench: Workbench, before: list[str], word: str) -> Iterable[str]:
    """Name the run files in the folder that is being written."""
    del workbench
    if before:
        return ()
    folder = Path(word).parent if word and not word.endswith("/") else Path(word or ".")
    if not folder.is_dir():
        return ()
    return sorted(str(file) for file in folder.glob(f"*{ENDING}"))[:_SHOWN]
