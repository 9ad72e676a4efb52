"""One exchange with a planner model: a question, a judgement, and at most one correction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from planbench.errors import PlanAuthoringError
from planbench.llm.client import CONTENT_FILTER, FREE, LENGTH, Message, ModelRequest, Usage
from planbench.plan.issues import ValidationIssue
from planbench.planner.prompts import correction
from planbench.validation import ValidationReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.llm.client import ModelClient, ModelReply

_HINTS: Final = {
    "truncated": "give a larger max_tokens, or ask for a shorter plan",
    "refused": "word the objective differently, or ask another model",
    "filtered": "word the objective differently, or ask another model",
    "empty_answer": "ask again, or ask another model",
}
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with what a check says of it."""

    text: str
    report: ValidationReport


class Talk:
    """Asks one model, and keeps count of attempts and usage."""

    def __init__(self, llm: ModelClient, request: ModelRequest) -> None:
        self.attempts = 0
        self.usage: Usage = FREE
        self.model: str | None = None
        self._llm = llm
        self._request = request
        self._best: Answer | None = None

    async def outcome(self, judge: Callable[[str], ValidationReport]) -> Answer:
        """Ask, and once more with the report when the answer is wrong; gives the better answer.

        Raises PlanAuthoringError where there is no whole answer to judge: that is never
        asked again. ModelError passes through.
        """
        first = await self._judged(judge)
        if first.report.ok:
            return first
        self._best = first
        messages = [
            *self._request.messages,
            Message(role="assistant", content=first.text),
            Message(role="user", content=correction(first.report.issues)),
        ]
        self._request = replace(self._request, messages=messages)
        second = await self._judged(judge)
        is_worse = second.report.plan is None and first.report.plan is not None
        return first if is_worse else second

    async def _judged(self, judge: Callable[[str], ValidationReport]) -> Answer:
        text = await self._asked()
        report = judge(text)
        cut = next((issue for issue in report.issues if issue.code == "truncated"), None)
        if cut is not None:
            self._fail("truncated", cut.message, text, cut)
        return Answer(text, report)

    async def _asked(self) -> str:
        reply = await self._llm.complete(self._request)
        self.attempts += 1
        self.usage += reply.usage
        self.model = reply.model or self.model
        if reply.refusal is not None or reply.finish_reason == "refusal":
            said = " ".join((reply.refusal or reply.content).split())[:_SHOWN]
            self._fail(
                "refused", "the model refused" + (f": {said}" if said else ""), reply.content
            )
        if reply.finish_reason == CONTENT_FILTER:
            self._fail("filtered", "a content filter stopped the answer", reply.content)
        if reply.finish_reason == LENGTH:
            text = "the answer was truncated at the limit of tokens" + _limit(self._request, reply)
            self._fail("truncated", text, reply.content)
        if not reply.content.strip():
            self._fail("empty_answer", "the model gave an empty answer", reply.content)
        return reply.content

    def _fail(
        self, code: str, message: str, text: str, issue: ValidationIssue | None = None
    ) -> NoReturn:
        """Raise for what is no answer; an earlier one that can be mended by hand comes along."""
        best = self._best
        issue = issue or ValidationIssue(code=code, message=message)
        known = ValidationReport(ok=False) if best is None else best.report
        report = known.model_copy(update={"ok": False, "issues": [issue, *known.issues]})
        raise PlanAuthoringError(
            code,
            message,
            report=report,
            text=text if best is None else best.text,
            usage=self.usage,
            attempts=self.attempts,
            hint=_HINTS[code],
        )


def _limit(request: ModelRequest, reply: ModelReply) -> str:
    most = request.max_tokens or reply.usage.output_tokens
    return f" ({most})" if most else ""
