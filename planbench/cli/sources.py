"""What a command line names as a plan: a file, a name, a version of it, or the standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError
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
        return sys.stdin.read()
    path = Path(word)
    if path.suffix in _FILES or len(path.parts) > 1:
        # a ref may hold a slash or an ending too: sweep@feature/new, sweep@v1.yaml
        if "@" in word and not path.exists() and "/" not in word.partition("@")[0]:
            return store.source(word)
        # a pipe, as <(...) is one, gives its text once, and a plan is checked more than once
        regular = path.is_file() or path.is_dir() or not path.exists()
        return path if regular else read_text(path)
    return store.source(word)


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
            raise CommandError(f"--param {name} is given twice")
        found[name] = value
    return found
