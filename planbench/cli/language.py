"""The command ``planbench schema``: the JSON Schema of the plan language, for editors and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planbench.cli.execution import FINE
from planbench.cli.terminal import output
from planbench.plan.document import format_json
from planbench.plan.json_schema import language_schema

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("schema", help="print the JSON Schema of the plan language")
    parser.add_argument(
        "--long", action="store_true", help="only the long form that models are given"
    )


def schema(options: argparse.Namespace) -> int:
    """Print the schema."""
    output().write(format_json(language_schema(short_forms=not options.long)))
    return FINE
