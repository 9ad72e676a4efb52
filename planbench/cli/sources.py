"""What a command line names as a plan: a file, a name, a version of it, or the standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError, PlanLoadError
from planbench.validation import read_text

if TYPE_CHECKING:
    import argparse

    from planbench.files import PlanFileStore

STANDARD: Final = "-"
NAMED: Final = "a plan file, a name, NAME@2, NAME@main, or - for the standard input"
_FILES: Final = (".yaml", ".yml", ".json")


def add_plans_dir(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--plans-dir``."""
    parser.add_argument(
        "--plans-dir",
        metavar="DIR",
        type=Path,
        default=Path("plans"),
        help="where plans are looked up by name (default: %(default)s)",
    )


def add_tools(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--tools``, and ``--env`` for the secrets that they may have."""
    parser.add_argument(
        "--tools",
        metavar="MODULE[:ATTRIBUTE]",
        action="append",
        default=[],
        help="where the tools are; may be given again, beside [tool.planbench] in pyproject.toml",
    )
    parser.add_argument(
        "--env",
        metavar="NAME=TOOL",
        action="append",
        default=[],
        help="let a tool, or a pattern as github_*, have the variable NAME as {env.NAME}; may be given again",
    )


def add_delegate(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--delegate``, the model that delegate nodes ask."""
    parser.add_argument(
        "--delegate",
        metavar="PROVIDER:MODEL",
        help="the model that delegate nodes ask, as ollama:llama3.2",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Give a parser ``--store``."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="where runs are kept: a URL as sqlite:///runs.db, or memory"
        " (default: PLANBENCH_STORE, or .planbench of this folder)",
    )


def plan_source(word: str, store: PlanFileStore) -> Path | str:
    """Give the file that is meant, or the text where there is none of its own."""
    if word == STANDARD:
        return _standard_input()
    path = Path(word)
    if path.suffix in _FILES or len(path.parts) > 1:
        # a ref may hold a slash or an ending too: sweep@feature/new, sweep@v1.yaml
        if "@" in word and not path.exists() and "/" not in word.partition("@")[0]:
            return store.source(word)
        # a pipe, as <(...) is one, gives its text once, and a plan is checked more than once
        regular = path.is_file() or path.is_dir() or not path.exists()
        return path if regular else read_text(path)
    try:
        return store.source(word)
    except PlanLoadError as error:
        if not path.exists():
            raise
        raise _no_plan(path, error) from error


def _standard_input() -> str:
    if sys.stdin is None:  # the caller has closed it
        raise CommandError("there is no standard input", hint="give a plan file or a name")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise CommandError(
            f"the standard input is no text: {error}", hint="a plan is YAML or JSON in UTF-8"
        ) from error


def _no_plan(path: Path, error: PlanLoadError) -> CommandError:
    """Say of a word that is no plan's name that it is a file or a folder of another kind."""
    endings = ", ".join(_FILES)
    if path.is_dir():
        return CommandError(
            f"{str(path)!r} is a folder, and {error.message}",
            hint=f"name a file of it, ending with one of {endings}; --plans-dir names the folder of plans",
        )
    return CommandError(
        f"{str(path)!r} is no plan file: its name ends with none of {endings}",
        hint=f"rename it, or give its text: - < {path}",
    )


def parameters(written: list[str]) -> dict[str, Any]:
    """Read ``k=v``; a value is text, which the plan's declaration may give a type."""
    found: dict[str, Any] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(
                f"--param {one!r} gives no value",
                hint="write --param NAME=VALUE, as date=2026-08-06",
            )
        if name in found:
            raise CommandError(f"--param {name} is given twice", hint="leave one of them out")
        found[name] = value
    return found
