"""Why a value cannot be stored as it is, and where inside the value the reason lies."""

from __future__ import annotations

from typing import Any, Final

from planbench.errors import ArtifactRefused
from planbench.plan.source import shown

PLAIN_DATA: Final = (
    "return plain data (dict, list, text, numbers, a DataFrame), or let the host allow pickle: "
    "TaskMemoryRuntime(url, allow_pickle=True)"
)

_SHOWN_PARTS: Final = 6
_SCALARS: Final = frozenset({"datetime", "decimal", "numpy", "pandas"})


class Refused(Exception):
    """Raised while a value is written; each level that it passes adds where it was."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.steps: list[str] = []

    def inside(self, step: str) -> Refused:
        """Say in which part of the next larger value this happened."""
        self.steps.append(step)
        return self

    def error(self) -> ArtifactRefused:
        """Give the error for whoever stores the value."""
        place = place_of(reversed(self.steps))
        message = f"{place}: {self.reason}" if place else self.reason
        return ArtifactRefused(message, hint=self.hint)


def at_key(key: Any) -> str:
    """Name the place of a key or index."""
    return f"[{label(key)}]"


def label(value: Any) -> str:
    """Write the label of a column or the key of a map into a message: short, never deep."""
    if type(value) is tuple and len(value) <= _SHOWN_PARTS:
        return "(" + ", ".join(map(shown, value)) + ")"
    if value is None:
        return "None"
    if type(value).__module__.partition(".")[0] in _SCALARS and not hasattr(value, "__len__"):
        return str(value)[:60]
    return shown(value)


def place_of(steps: Any) -> str:
    """Write steps from the outside in as one place: ``value['df'], column 'x', row 3 ['k']``."""
    place = ""
    for step in steps:
        if not step.startswith("["):
            place += f", {step}" if place else step
        elif not place:
            place = f"value{step}"
        else:
            place += step if place.endswith("]") else f" {step}"
    return place
