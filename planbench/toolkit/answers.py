"""What the tools answer: the manifest with its envelope, or a refusal with its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.tools import ToolResult

if TYPE_CHECKING:
    from planbench.errors import PlanbenchError
    from planbench.plan.manifest import PlanRunManifest
    from planbench.runtime import RunState
    from planbench.validation import ValidationReport

ENVELOPE: Final = (
    "run_id",
    "root_run_id",
    "parent_run_id",
    "checkpoint_enabled",
    "artifact_mode",
    "resume_level",
    "resumable",
    "recovery_reason",
    "repair_attempts_used",
    "max_repair_rounds",
    "active_child_run_id",
    "reruns",
)
"""The keys that all run tools return beside their own."""


class Refusal(Exception):  # never leaves the toolkit: it becomes a ToolResult
    """Raised inside the toolkit to answer with an error."""

    def __init__(self, code: str, message: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.result = result

    def answer(self) -> ToolResult:
        """Give the answer that it stands for."""
        return ToolResult.failed(self.message, self.code, self.result)


def refused(error: PlanbenchError, result: dict[str, Any] | None = None) -> ToolResult:
    """Answer with one of our own errors, its hint included."""
    return ToolResult.failed(str(error), error.code, result)


def whole(manifest: PlanRunManifest) -> dict[str, Any]:
    """Give the manifest as JSON; ``PlanRunManifest.model_validate`` takes it back."""
    found: dict[str, Any] = manifest.model_dump(mode="json")
    return found


def envelope(manifest: PlanRunManifest) -> dict[str, Any]:
    """Give the recovery envelope alone."""
    found = whole(manifest)
    return {key: found[key] for key in ENVELOPE}


def standing(state: RunState) -> dict[str, Any]:
    """Give the manifest of a run that has ended, or the progress of one that is at work."""
    manifest = state.manifest()
    if manifest.status not in ("running", "waiting"):
        return whole(manifest)
    return {
        **envelope(manifest),
        "status": manifest.status,
        "nodes_total": len(state.nodes),
        "nodes_done": state.nodes_done,
    }


def asked(run_id: str, answer: ToolResult) -> ToolResult:
    """Name the child in an answer about it that was given for its parent."""
    found = answer.result
    if not found or found.get("run_id") in (None, run_id):
        return answer
    told = {**found, "active_child_run_id": found["run_id"]}
    return answer.model_copy(update={"result": told})


def issues_of(report: ValidationReport) -> list[dict[str, Any]]:
    """Give the issues of a report as JSON."""
    return [issue.model_dump(mode="json") for issue in report.issues]
