"""The command ``planbench``: it reads a command line, calls the workbench, and says what came of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from planbench.cli import commands, difference, formatting, recorded, runs, versions
from planbench.cli.arguments import command_line
from planbench.cli.demo import demo
from planbench.cli.execution import RED, WRONG, block
from planbench.cli.interrupt import leave
from planbench.cli.language import schema
from planbench.errors import (
    CommandError,
    ConfigurationError,
    PlanbenchError,
    PlanLoadError,
    RunRefused,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED: Final = 130
_COMMANDS: Final = {
    "validate": commands.validate,
    "run": commands.run,
    "render": commands.render,
    "demo": demo,
    "diff": difference.difference,
    "fmt": formatting.formatting,
    "schema": schema,
    "runs": recorded.runs,
    "artifacts": recorded.artifacts,
    "repair": recorded.repair,
    "show": runs.show,
    "resume": runs.resume,
    "save": versions.save,
    "history": versions.history,
}
_NOTHING_RAN: Final = (CommandError, ConfigurationError, PlanLoadError, RunRefused)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    Without ``arguments`` it stands for the whole process, and after an interrupt it
    waits for no thread that a tool left behind.
    """
    code = _run(sys.argv[1:] if arguments is None else arguments)
    return leave(code) if arguments is None else code


def _run(arguments: Sequence[str]) -> int:
    try:
        options = command_line().parse_args(arguments)
        return _COMMANDS[options.command](options)
    except PlanbenchError as error:
        head, *rest = str(error).splitlines() or [""]
        if isinstance(error, StoreError) and not rest:
            rest = ["--store names another store, and --store memory keeps nothing"]
        code = f"{error.code}: " if isinstance(error, RunRefused) else ""
        block(f"{code}{head}", "\n".join(rest))
        return WRONG if isinstance(error, _NOTHING_RAN) else RED
    except OSError as error:  # a disk that is full, a file that went away
        block(f"{error.filename or 'the output'}: {error.strerror or error}")
        return RED
    except KeyboardInterrupt:
        block("interrupted")
        return INTERRUPTED


__all__ = ["main"]
