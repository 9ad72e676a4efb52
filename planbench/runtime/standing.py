"""How one node of a run stands, and where a run comes from."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from planbench.plan.manifest import ArtifactRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planbench.plan.manifest import ArtifactMode, ResumeLevel, Status

MAX_ERRORS: Final = 20
MAX_ERROR_LENGTH: Final = 300
MAX_OUTPUT: Final = 20_000
BLOCKED_REASON: Final = "node never dispatched: blocked by a failed dependency"

ENDED: Final = frozenset({"ok", "partial", "error", "blocked", "skipped", "cancelled"})
_NO_FACETS: Final[Mapping[str, Any]] = MappingProxyType({})
FAILED: Final = frozenset({"error", "blocked", "cancelled"})
RESUMABLE: Final = frozenset({"interrupted", "failed", "partial", "cancelled", "budget_exceeded"})
"""How a run may have ended that can be continued."""


class NodeState:
    """How one node stands: counts, times in epoch seconds, bytes, errors, keys, facets.

    ``status`` is waiting, running, ok, partial, error, blocked, skipped or cancelled.
    ``notes`` are the facts that the tool of a plain node attached to its call.
    ``total`` is None for a node that makes one call, and until a fan-out is opened.
    ``chosen`` is the tool that the model of a delegate chose. ``rounds`` counts how often it
    began anew, since what it reads was another; ``lost`` names the items whose errors it has.
    """

    # Defaults of the class, so that making the state of a node stores nothing but its id.
    status: str = "waiting"
    done: int = 0
    failed: int = 0
    reused: int = 0
    total: int | None = None
    started: float | None = None
    finished: float | None = None
    nbytes: int = 0
    errors: Sequence[str] = ()
    facets: Mapping[str, Any] = _NO_FACETS
    store_key: str | None = None
    item_keys: dict[int, str] | None = None
    entry_type: str | None = None
    reason: str | None = None
    output: str = ""
    warnings: Sequence[str] = ()
    chosen: str | None = None
    rounds: int = 0
    lost: Sequence[int] = ()
    notes: Mapping[str, Any] = _NO_FACETS

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id

    def reopened(self, *, keep_items: bool) -> NodeState:
        """Give the state of a node that is to run again, with the items that gave a value or none."""
        again = NodeState(self.node_id)
        again.output = self.output
        if self.rounds:
            again.rounds = self.rounds
        if keep_items and self.item_keys:
            again.item_keys = dict(self.item_keys)
            again.done, again.reused, again.nbytes = self.done, self.reused, self.nbytes
            again.total = self.total
        return again

    @property
    def seconds(self) -> float | None:
        """Seconds from start to end; None while either is missing."""
        if self.started is None or self.finished is None:
            return None
        return max(0.0, self.finished - self.started)

    @property
    def keys(self) -> list[str]:
        """The keys under which the results are stored; a fan-out's in item order."""
        if self.store_key is not None:
            return [self.store_key]
        keys = self.item_keys
        return [] if keys is None else [keys[index] for index in sorted(keys)]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the node."""
        return self.status in ENDED

    def ref(self) -> ArtifactRef:
        """Give the small published face of the node's result."""
        errors = list(self.errors)
        if self.reason is not None:
            errors.insert(0, self.reason)
        status: Status = "error"
        if self.status in ("ok", "partial", "skipped"):
            status = self.status  # type: ignore[assignment]  # narrowed by the line above
        return _new_ref(
            {
                "node_id": self.node_id,
                "keys": self.keys,
                "entry_type": self.entry_type,
                "facets": dict(self.facets),
                "status": status,
                "item_count": self.done if self.total is not None else None,
                "errors": errors[:MAX_ERRORS],
                "bytes_stored": self.nbytes,
            }
        )


_REF_FIELDS: Final = set(ArtifactRef.model_fields)


def _new_ref(values: dict[str, Any]) -> ArtifactRef:
    """Make a ref from values that are right by construction, at a fifth of validation's price."""
    ref = ArtifactRef.__new__(ArtifactRef)
    put = object.__setattr__
    put(ref, "__dict__", values)
    put(ref, "__pydantic_fields_set__", _REF_FIELDS)
    put(ref, "__pydantic_extra__", None)
    put(ref, "__pydantic_private__", None)
    return ref


class Lineage:
    """Where a run comes from, what was made of it, and what can become of it."""

    __slots__ = (
        "artifact_mode",
        "checkpoint",
        "child",
        "max_repairs",
        "parent",
        "repairs",
        "reruns",
        "resume_level",
        "root",
    )

    def __init__(self) -> None:
        self.root: str | None = None
        self.parent: str | None = None
        self.child: str | None = None
        self.checkpoint = False
        self.artifact_mode: ArtifactMode = "memory"
        self.resume_level: ResumeLevel = "none"
        self.repairs = 0
        self.max_repairs = 2
        self.reruns: dict[str, None] = {}
