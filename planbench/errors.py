"""Every error that planbench raises, in one tree.

PlanbenchError
├── ConfigurationError        the host asked for what it has not set up
├── CommandError              a magic or command line that cannot be read
├── LanguageError             a placeholder, path or guard that is not written right
│   ├── PlaceholderError
│   ├── PathError
│   └── GuardError
├── PlanLoadError             no such plan, a bad name, an unreadable file
│   └── PlanInvalid           the content is wrong; carries every issue
├── ToolError                 a tool call that did not give a value
│   ├── UnknownTool
│   ├── ToolNotAllowed
│   ├── ToolArgumentsInvalid
│   └── ResultInvalid         it breaks the schema that it is declared to keep
├── ArtifactNotFound          no such key in the working memory
├── ArtifactRefused           a value that cannot be kept
├── ArtifactConflict          a key that holds another value than the one to be put back
├── FrameError                values that cannot stand in one table
├── SpecInvalid               a table was asked for in a way that cannot be done
├── RunError
│   ├── RunRefused            the run never started; carries a code
│   ├── RunFailed             nodes are red; carries the manifest
│   ├── RunCancelled
│   ├── AlgorithmFailed       an algorithm came to no result
│   └── BudgetExceeded        a call was refused, since a limit is reached
├── StoreError                a checkpoint store did not do its work
│   ├── ArtifactUnavailable   a stored artifact that cannot be had
│   │   ├── ArtifactMissing   its file is gone
│   │   ├── ArtifactDamaged   its bytes are not those that were written
│   │   └── ArtifactTooLarge  it is over the limit of whoever reads it
│   ├── LeaseLost             another process holds the run
│   ├── RecordDamaged         a stored record that cannot be read
│   └── CheckpointWriteFailed  a run whose progress could not be recorded
├── ModelError                a model gave no answer; carries a code
├── PlanAuthoringError        a model's answer is no plan; carries a code and the report
└── RenderError               a picture could not be made
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class PlanbenchError(Exception):
    """The base of all errors here: what happened, and in ``hint`` what to do next.

    IPython shows it as one short block without a traceback, and the cell fails.
    """

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Those made from keywords cannot be made again from ``args`` alone.
        return _restored, (type(self), self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        head, *rest = str(self).splitlines() or [""]
        return [f"{type(self).__name__}: {head}", *(f"  {line}" for line in rest)]


def _restored(kind: type[PlanbenchError], args: tuple[Any, ...]) -> PlanbenchError:
    return kind.__new__(kind, *args)


class ConfigurationError(PlanbenchError):
    """Raised when the host combines settings that cannot work together."""

    code = "configuration_error"


class CommandError(PlanbenchError):
    """Raised when the line of a magic or command cannot be read."""

    code = "invalid_arguments"


class LanguageError(PlanbenchError, ValueError):
    """Raised when a piece of the plan language is not well formed."""


class PlaceholderError(LanguageError):
    """Raised when a placeholder cannot be read or has no value."""

    code = "bad_placeholder"


class PathError(LanguageError):
    """Raised when a path is not well formed or does not fit the value."""

    code = "bad_path"


class GuardError(LanguageError):
    """Raised when a guard does not compile, or gives no yes or no."""

    code = "bad_guard"


class PlanLoadError(PlanbenchError):
    """Raised when a plan cannot be had: no such file, a bad name, unreadable bytes."""

    code = "plan_unreadable"

    def __init__(
        self, message: str, *, path: Path | str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class PlanInvalid(PlanLoadError):
    """Raised when a plan is read but wrong; ``issues`` holds all that was found."""

    code = "plan_invalid"
    shown = 20

    def __init__(
        self, issues: Sequence[Any], *, path: Path | str | None = None, name: str | None = None
    ) -> None:
        self.issues = list(issues)
        self.name = name
        errors = [issue for issue in self.issues if issue.severity == "error"]
        noun = "error" if len(errors) == 1 else "errors"
        subject = f"plan {name!r}" if name else "the plan"
        lines = [f"{subject} has {len(errors)} {noun}", *map(str, errors[: self.shown])]
        if len(errors) > self.shown:
            lines.append(f"and {len(errors) - self.shown} more")
        super().__init__("\n".join(lines), path=path)


class ToolError(PlanbenchError):
    """Raised when a tool call gives no value; the tool's own error is the cause."""

    code = "tool_error"

    def __init__(self, message: str, *, tool: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.tool = tool


class UnknownTool(ToolError):
    """Raised when no tool of that name is registered."""

    code = "unknown_tool"


class ToolNotAllowed(ToolError):
    """Raised when the tool exists and the host does not allow it here."""

    code = "tool_not_allowed"


class ToolArgumentsInvalid(ToolError):
    """Raised when arguments do not fit the tool; ``problems`` names each path."""

    code = "bad_arg_type"

    def __init__(self, message: str, *, tool: str, problems: Sequence[Any] = ()) -> None:
        super().__init__(message, tool=tool)
        self.problems = list(problems)


class ResultInvalid(ToolError):
    """Raised when a tool gives what its declared output schema does not allow; ``problems`` says where."""

    code = "bad_result"

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(
            f"tool {tool!r} gave what its output schema does not allow: {'; '.join(problems)}",
            tool=tool,
            hint="mend the tool, or the schema that it is registered with",
        )
        self.problems = list(problems)


class ArtifactNotFound(PlanbenchError, KeyError):
    """Raised when the working memory holds nothing under a key; names near ones."""

    code = "artifact_not_found"

    def __init__(self, key: str, near: Iterable[str] = (), *, hint: str | None = None) -> None:
        self.key = key
        self.near = list(near)
        if hint is None and self.near:
            hint = "near: " + ", ".join(self.near)
        super().__init__(f"nothing is stored under {key!r}", hint=hint)


class ArtifactRefused(PlanbenchError, TypeError):
    """Raised when a value cannot be kept as it is: it would come back different, or not at all."""

    code = "artifact_refused"


class ArtifactConflict(PlanbenchError):
    """Raised when a value cannot be put back, since its key holds another one now."""

    code = "artifact_alias_conflict"


class FrameError(PlanbenchError, ValueError):
    """Raised when values cannot stand together in one table."""

    code = "bad_frame"


class SpecInvalid(PlanbenchError, ValueError):
    """Raised when what ``wm_compute`` was asked for is not well formed, or does not fit the data."""

    code = "invalid_arguments"


class RunError(PlanbenchError):
    """Raised for a run as a whole."""


class RunRefused(RunError):
    """Raised when a run is refused before anything was called; ``code`` says why."""

    def __init__(
        self, code: str, message: str, *, node_id: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.node_id = node_id


class RunFailed(RunError):
    """Raised by the surfaces when nodes of a finished run are red; carries the manifest."""

    code = "run_failed"

    def __init__(self, message: str, *, manifest: Any = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.manifest = manifest


class RunCancelled(RunError):
    """Raised by the surfaces when the run they waited for was cancelled."""

    code = "run_cancelled"


class AlgorithmFailed(RunError):
    """Raised by an algorithm that comes to no result; its message is the reason of the run."""

    code = "algorithm_failed"


class BudgetExceeded(RunError):
    """Raised inside of an algorithm when a call is refused, since a limit of its budget is reached."""

    code = "budget_exceeded"


class StoreError(PlanbenchError):
    """Raised when a checkpoint store cannot be opened, read or written."""

    code = "store_error"


class LeaseLost(StoreError):
    """Raised when another process has taken a run over: whoever held it may not write any more."""

    code = "run_busy"


class RecordDamaged(StoreError):
    """Raised when a stored record cannot be read back."""

    code = "checkpoint_invalid"


class CheckpointWriteFailed(StoreError):
    """Raised when a run ended because its progress could not be recorded."""

    code = "checkpoint_write_failed"


class ModelError(PlanbenchError):
    """Raised when a model gives no answer; ``code`` says why, and no key is in any text.

    Codes: model_unauthorized, model_not_found, rate_limited, model_request_refused,
    model_timeout, model_unreachable, model_failed. ``status`` is that of HTTP,
    ``retry_after`` the seconds that the server asks to wait, ``detail`` the endpoint's
    own code, where there is one.
    """

    code = "model_failed"

    def __init__(
        self, code: str, message: str, *, model: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.model = model
        self.status: int | None = None
        self.retry_after: float | None = None
        self.detail: str | None = None


class PlanAuthoringError(PlanbenchError):
    """Raised when a model was asked for a plan and its answer is none; ``code`` says why.

    Codes: truncated, refused, filtered and empty_answer for what is no answer, interrupted
    where somebody did not wait for one, plan_invalid and delta_invalid for one that stays wrong after its correction.
    ``report`` holds every issue, ``text`` what the model sent last, ``usage`` what it took.
    """

    code = "plan_invalid"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        report: Any,
        text: str = "",
        usage: Any = None,
        attempts: int = 1,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.report = report
        self.text = text
        self.usage = usage
        self.attempts = attempts


class ArtifactUnavailable(StoreError):
    """Raised when a stored artifact cannot be given back."""

    code = "artifacts_unavailable"


class ArtifactMissing(ArtifactUnavailable):
    """Raised when nothing is stored under the digest of a record."""


class ArtifactDamaged(ArtifactUnavailable):
    """Raised when the bytes of an artifact are not those that were written, or not readable."""


class ArtifactTooLarge(ArtifactUnavailable):
    """Raised when an artifact is larger than its reader allows."""


class RenderError(PlanbenchError):
    """Raised when no picture can be made; the caller shows text instead."""

    code = "render_error"
