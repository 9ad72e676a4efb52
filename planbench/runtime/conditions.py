"""Whether a node may run: what it reads was not skipped, and its guard says yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.errors import GuardError
from planbench.runtime.node import error_text

if TYPE_CHECKING:
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.run import Run
    from planbench.runtime.standing import NodeState

BUILT_IN: Final = ("count", "bytes", "items_ok", "items_failed")
MAX_REASON: Final = 300
ERRORS: Final = ("errors",)


class Refused(Exception):
    """Raised when a node must be skipped; the text is the reason that its ref gives.

    ``seen`` is what belongs on record beside it: the count of errors that a guard saw.
    """

    def __init__(self, reason: str, seen: dict[str, int]) -> None:
        super().__init__(reason[:MAX_REASON])
        self.seen = seen


class Conditions:
    """Judges the nodes of one run, each when all that it waits for has ended."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.skipped: set[str] = set()

    def check(self, node: CompiledNode) -> dict[str, int]:
        """Give what belongs on record when the node may run; raises Refused when it may not."""
        for read in node.reads:
            if read in self.skipped:
                raise Refused(f"reads {{artifacts.{read}}}, and {read!r} was skipped", {})
        guard = node.guard
        if guard is None:
            return {}
        seen = {"errors": self._run.state.errors} if ERRORS in guard.reads else {}
        try:
            passed = guard.evaluate(self._values(guard.reads))
        except GuardError as error:
            raise Refused(f"cannot be evaluated: {error.message}", seen) from error
        except Exception as error:  # a value that raises when its length is asked
            text = f"cannot be evaluated: guard {guard.text!r}: {error_text(error)}"
            raise Refused(text, seen) from error
        if not passed:
            raise Refused(f"guard {guard.text!r} is false", seen)
        return seen

    def _values(self, reads: tuple[tuple[str, ...], ...]) -> dict[tuple[str, ...], Any]:
        values: dict[tuple[str, ...], Any] = {}
        states = self._run.state.nodes
        for path in reads:
            match path:
                case ("errors",):
                    values[path] = self._run.state.errors
                case ("status", node_id) if node_id in states:
                    status = states[node_id].status
                    values[path] = "error" if status == "blocked" else status
                case ("artifacts", node_id) if node_id in states:
                    state = states[node_id]
                    names = () if state.status == "skipped" else BUILT_IN
                    built_in = {name: self._built_in(state, name) for name in names}
                    values[path] = {**built_in, **state.facets}
                case ("artifacts", node_id, facet, *_) if node_id in states:
                    state = states[node_id]
                    if facet in state.facets:
                        values[path] = state.facets[facet]
                    elif facet in BUILT_IN and state.status != "skipped":
                        values[path] = self._built_in(state, facet)
        return values

    def _built_in(self, state: NodeState, facet: str) -> int:
        match facet:
            case "bytes":
                return state.nbytes
            case "items_failed":
                return state.failed
            case "items_ok":
                return state.done
        if state.total is not None:
            return state.done
        body = self._run.bodies.get(state.node_id)
        try:
            spilled = body.spilled  # type: ignore[union-attr]  # what has no length counts as one
            return body.length or 0 if spilled else len(body.value)  # type: ignore[union-attr]  # as above
        except (TypeError, AttributeError):
            return 1
