"""What a run gives back as data: refs, counts, the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from planbench.plan.model import PlanModel

if TYPE_CHECKING:
    from collections.abc import Sequence

Status = Literal["ok", "skipped", "partial", "error"]
RunStatus = Literal[
    "running", "completed", "partial", "failed", "cancelled", "waiting", "interrupted"
]
ArtifactMode = Literal["memory", "durable"]
ResumeLevel = Literal["none", "process", "cross_restart"]


class ArtifactRef(PlanModel):
    """The small published face of a node's result: keys and facets, never a body."""

    node_id: str
    keys: list[str] = Field(default_factory=list)
    entry_type: str | None = None
    facets: dict[str, Any] = Field(default_factory=dict)
    status: Status = "ok"
    item_count: int | None = None
    errors: list[str] = Field(default_factory=list)
    bytes_stored: int = 0


class ExecutionManifest(PlanModel):
    """What a run left: the key map and the counts, as the reference has it."""

    plan_name: str
    objective: str
    session_id: str | None = None
    artifacts: list[ArtifactRef] = Field(default_factory=list)
    nodes_total: int = 0
    nodes_ok: int = 0
    nodes_skipped: int = 0
    nodes_failed: int = 0
    duration_seconds: float = 0.0
    total_bytes_stored: int = 0


class ItemCounts(PlanModel):
    """How the items of one fan-out ended."""

    ok: int = 0
    failed: int = 0
    skipped: int = 0
    reused: int = 0


class PlanRunManifest(ExecutionManifest):
    """The manifest with the run's status, item counts and recovery envelope."""

    status: RunStatus
    items: dict[str, ItemCounts] = Field(default_factory=dict)
    usage: dict[str, float] = Field(default_factory=dict)
    run_id: str | None = None
    root_run_id: str | None = None
    parent_run_id: str | None = None
    checkpoint_enabled: bool = False
    artifact_mode: ArtifactMode = "memory"
    resume_level: ResumeLevel = "none"
    resumable: bool = False
    recovery_reason: str | None = None
    repair_attempts_used: int = 0
    max_repair_rounds: int = 2
    active_child_run_id: str | None = None
    reruns: list[str] = Field(default_factory=list)

    def failures(self) -> Sequence[ArtifactRef]:
        """Give the refs of the nodes that are not whole: error first, then partial."""
        red = [ref for ref in self.artifacts if ref.status == "error"]
        return [*red, *(ref for ref in self.artifacts if ref.status == "partial")]
