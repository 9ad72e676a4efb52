"""Where a command's tools come from: installed packages, pyproject.toml, and ``--tools``."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tomllib
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.cli.terminal import errors
from planbench.errors import CommandError, PlanbenchError
from planbench.plan.structure import suggestion
from planbench.tools import ToolRegistry
from planbench.tools.importing import import_failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

ENTRY_POINTS: Final = "planbench.tools"


def collect(named: Sequence[str], folder: Path) -> ToolRegistry | None:
    """Gather the tools; None where no source was named anywhere.

    ``named`` are ``module`` or ``module:attribute``, importable also from ``folder``.
    A source named later replaces a tool of the same name. Raises CommandError for a
    source that cannot be had.
    """
    registry = ToolRegistry()
    found = False
    _make_importable(folder)
    # What a module prints while it is imported must not end up in the answer.
    with contextlib.redirect_stdout(sys.stderr):
        for point in entry_points(group=ENTRY_POINTS):
            found |= _installed(registry, point.name, point.value)
        for source in [*_project_sources(folder), *named]:
            _add(registry, source)
            found = True
    return registry if found else None


def _installed(registry: ToolRegistry, name: str, value: str) -> bool:
    """Add the tools of an installed package; a broken one is said and does not stop the rest."""
    try:
        _add(registry, value)
    except CommandError as error:
        errors().line(f"planbench: warning: the entry point {name!r} gives no tools: {error}")
        return False
    return True


def _project_sources(folder: Path) -> list[str]:
    file = folder / "pyproject.toml"
    if not file.is_file():
        return []
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{file.name} cannot be read: {error}") from error
    settings = project.get("tool", {}).get("planbench", {})
    sources = settings.get("tools", []) if isinstance(settings, dict) else settings
    if not isinstance(sources, list) or not all(isinstance(one, str) for one in sources):
        raise CommandError(
            f"[tool.planbench] tools in {file.name} must be a list of texts",
            hint='write: tools = ["my_module", "other.module:attribute"]',
        )
    return sources


def _add(registry: ToolRegistry, source: str) -> None:
    module_name, _, attribute = source.partition(":")
    is_file = module_name.endswith(".py")
    if is_file or not all(part.isidentifier() for part in module_name.split(".")):
        stem = Path(module_name).stem
        hint = (
            f"did you mean {stem}?" if stem.isidentifier() else "write module or module:attribute"
        )
        raise CommandError(f"{source!r} names no module", hint=hint)
    module = _imported(module_name, source)
    try:
        registry.register(_attribute(module, attribute) if attribute else module)
    except PlanbenchError as error:
        raise CommandError(
            f"{source!r} gives no tools: {error.message}", hint=error.hint
        ) from error


def _imported(name: str, source: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"there is no module {error.name!r} (from {source!r})",
                hint="run the command from the folder that holds it, or install it",
            ) from error
        raise CommandError(
            f"importing {name!r} failed: {error}", hint="install what it imports"
        ) from error
    except (Exception, SystemExit) as error:
        raise import_failure(name, error) from error


def _attribute(module: ModuleType, attribute: str) -> Any:
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        near = suggestion(attribute, [name for name in vars(module) if not name.startswith("_")])
        name = module.__name__
        raise CommandError(
            f"module {name!r} has no attribute {attribute!r}",
            hint=near or f"--tools {name} takes all of its public functions",
        ) from error


def _make_importable(folder: Path) -> None:
    place = str(folder)
    if place not in sys.path:
        sys.path.insert(0, place)
