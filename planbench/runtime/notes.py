"""Small facts that a tool attaches to its call: where a result came from, how much it was."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from planbench.errors import ToolError
from planbench.runtime import output

MAX_FACTS: Final = 20
MAX_TEXT: Final = 200
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

output.noting = True  # calls say from now on which item they are about


def note(**facts: Any) -> None:
    """Attach small facts to the call that is running: ``note(source=url, etag=tag, rows=len(rows))``.

    A fact is a text (cut at 200 characters), a number, a bool or None; they stand in the
    journal, in the details of the node, and as columns of ``run.items(...)``. Outside of a
    run nothing happens, so that a tool can be tested alone. Raises ToolError for a value of
    another type, and for more than 20 facts in one call.
    """
    if len(facts) > MAX_FACTS:
        raise ToolError(f"note takes up to {MAX_FACTS} facts, and these are {len(facts)}")
    told = {_checked(name): _fact(name, value) for name, value in facts.items()}
    where = output.place.get()
    if where is not None and told:
        prints, node_id = where
        prints.note(node_id, output.item.get(), told)


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ToolError(f"{name[:80]!r} is no name of a fact: letters, digits and _, up to 40")
    return name


def _fact(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return output.as_utf8(value[:MAX_TEXT])
    if value is None or type(value) in (bool, int, float):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:MAX_TEXT]
    raise ToolError(
        f"note({name}=...) takes a text, a number, a bool or None, not {type(value).__name__}",
        hint="notes are small; return the value to store it",
    )
