"""A module of the user that cannot be imported, and the line of it that failed."""

from __future__ import annotations

from pathlib import Path

from planbench.errors import CommandError


def import_failure(name: str, error: BaseException) -> CommandError:
    """Make the error for a module whose import has raised; it names the innermost line.

    That may be a SystemExit too: a module that ends the process gives no tools.
    """
    return CommandError(
        f"importing {name!r} failed: {type(error).__name__}: {error}{_place(error)}",
        hint=f"mend it; import {name} in Python gives the whole traceback",
    )


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return ""  # a SyntaxError names its file and line itself
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return f" ({Path(last.tb_frame.f_code.co_filename).name}, line {last.tb_lineno})"
