"""The names of plans, and how a name asks for a version: ``sweep``, ``sweep@2``, ``sweep@main``."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from planbench.errors import PlanLoadError

SUFFIXES: Final = (".plan.yaml", ".yaml", ".yml", ".json")  # the longest first
LOCK_SUFFIX: Final = ".lock.json"
_MAX_NAME: Final = 200
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Wanted(NamedTuple):
    """What a name asks for: the plan, and of it a version by number or a git ref."""

    name: str
    version: int | None = None
    ref: str | None = None


def plan_name(file_name: str) -> str | None:
    """Give the name of the plan that a file of this name holds; None when it holds none."""
    if file_name.startswith(".") or file_name.endswith(LOCK_SUFFIX):
        return None
    suffix = next((suffix for suffix in SUFFIXES if file_name.endswith(suffix)), None)
    return None if suffix is None else file_name.removesuffix(suffix)


def read_wanted(text: Any) -> Wanted:
    """Take a name apart at its first ``@``; only digits after it are a version's number.

    Raises PlanLoadError for what is no bare name.
    """
    name, at, version = text.partition("@") if isinstance(text, str) else (text, "", "")
    check_name(name)
    if not at:
        return Wanted(name)
    if not version:
        raise PlanLoadError(
            f"{text!r} names no version after the @", hint=f"write {name}@2 or {name}@main"
        )
    if _NUMBER.fullmatch(version):
        return Wanted(name, version=int(version))
    return Wanted(name, ref=version)


def check_name(name: Any) -> None:
    """Refuse what is no bare name of a plan."""
    if isinstance(name, str) and len(name) > _MAX_NAME:
        raise PlanLoadError(
            f"a plan's name has at most {_MAX_NAME} characters, and this one has {len(name)}",
            hint="for text that is a plan itself: load_plan(text)",
        )
    if not isinstance(name, str) or not name or not name.isprintable():
        raise PlanLoadError(f"a plan's name is plain text, not {str(name)[:60]!r}")
    if name.startswith(".") or any(sign in name for sign in "/\\:"):
        raise PlanLoadError(
            f"a plan is named by its bare name, not by a path: {name!r}",
            hint="for a file elsewhere, read it: load_plan(Path(...))",
        )


def check_new_name(name: Any) -> None:
    """Refuse a name under which a saved plan would not be found again, or not everywhere."""
    check_name(name)
    if "@" in name:
        raise PlanLoadError(
            f"a plan cannot be saved as {name!r}: what follows the @ asks for a version",
            hint=f"save it as {name.partition('@')[0]!r}; the new version gets its number",
        )
    if plan_name(name) is not None:
        bare = plan_name(name)
        raise PlanLoadError(f"{name!r} is the name of a file", hint=f"give the bare name: {bare!r}")
    if plan_name(f"{name}.yaml") != name or plan_name(f"{name}.json") != name:
        raise PlanLoadError(
            f"a plan cannot be saved as {name!r}: the ending has a meaning of its own"
        )
    if name != name.strip() or name.endswith(".") or any(sign in name for sign in '<>"|?*'):
        raise PlanLoadError(f"a plan cannot be saved as {name!r}: not every system has such files")
