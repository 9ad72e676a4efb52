"""What a check found, and the plan when it is one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from planbench.plan.issues import ValidationIssue
from planbench.plan.model import ExecutionPlan


class ValidationReport(BaseModel):
    """The answer of a check: the plan, whether it may run, and every issue.

    ``plan`` is there when the text is a plan, also when its tools are wrong; ``draft``
    is what could be read of a broken one, to draw it. ``inferred`` names, for each node
    that leaves ``depends_on`` out, what it waits for because it reads it.
    """

    model_config = ConfigDict(frozen=True)

    # both were looked at already, and what is drawn may be broken
    plan: SkipValidation[ExecutionPlan | None] = None
    ok: bool
    issues: list[ValidationIssue] = Field(default_factory=list)
    inferred: dict[str, list[str]] = Field(default_factory=dict, exclude=True)
    draft: SkipValidation[ExecutionPlan | None] = Field(default=None, repr=False, exclude=True)

    def __str__(self) -> str:
        if not self.issues:
            return "no issues"
        return "\n".join(" ".join(str(issue).split()) for issue in self.issues)
