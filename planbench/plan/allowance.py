"""How many values and nodes a reader may still take from a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.plan.source import Problem, UnreadableText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planbench.plan.source import Limits, Route

OF_A_NODE: Final = 100
"""Values that each node has of its own: as many as one with every field written in full needs."""

OF_A_CONTAINER: Final = 2
"""Values that a map or a list counts for, with nothing in it: it takes more memory than a scalar."""
OF_A_BRACE: Final = 3
"""Values that a brace in a text counts for: it may begin a placeholder, which takes longer to read."""

_DEPTHS: Final = (2, 3)  # a node stands in the plan and its ``nodes``, and maybe in a wrapper


class Allowance:
    """What is left of the values that a text may have.

    A reader takes one off ``left`` for each key and scalar, ``OF_A_CONTAINER`` for each map and
    list, and ``OF_A_BRACE`` for each brace that opens in a text. It tells of every map where it
    begins and ends, with the stack of what is around it.
    """

    __slots__ = ("_before", "_limits", "_nodes", "left")

    def __init__(self, limits: Limits) -> None:
        self.left = limits.max_values
        self._limits = limits
        self._nodes = 0
        self._before = 0

    def begin(self, around: Sequence[Any]) -> None:
        """Add what a node has of its own, where one begins."""
        if len(around) in _DEPTHS and _holds_nodes(around):
            self._nodes += 1
            self._before = self.left
            self.left += OF_A_NODE
            if self._nodes > self._limits.max_nodes:
                self.left = -1

    def end(self, around: Sequence[Any], node: dict[str, Any]) -> None:
        """Take back what a node did not need of its own, and all from a map that is none."""
        if len(around) in _DEPTHS and _holds_nodes(around):
            is_node = "id" in node and ("tool" in node or "type" in node)
            self.left = min(self.left, self._before) if is_node else self.left - OF_A_NODE

    def exceeded(self, offset: int, route: Route) -> UnreadableText:
        """Say which limit was passed, once ``left`` is below zero."""
        if self._nodes > self._limits.max_nodes:
            message, fix = f"more than {self._limits.max_nodes} nodes", "split the plan"
        else:
            message = f"more than {self._limits.max_values} values beside {OF_A_NODE} of each node"
            fix = "keep large data in a file that a tool reads"
        return UnreadableText(Problem("yaml_syntax", message, offset, route, fix=fix))


def weight_of(scalar: Any) -> int:
    """Say how many values a scalar counts for."""
    return 1 + OF_A_BRACE * scalar.count("{") if isinstance(scalar, str) else 1


def _holds_nodes(around: Sequence[Any]) -> bool:
    items, plan = around[-1], around[-2]
    return not items.is_map and plan.is_map and plan.key == "nodes"
