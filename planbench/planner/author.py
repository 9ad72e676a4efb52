"""The planner: an objective in words becomes a plan that is checked against the tools there are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import ConfigurationError, PlanAuthoringError
from planbench.llm.answers import read_plan
from planbench.llm.client import Message, ModelRequest
from planbench.llm.providers import client_of
from planbench.plan.model import ExecutionPlan, Provenance
from planbench.plan.parameters import wanted
from planbench.planner import prompts
from planbench.planner.answerform import HOSTS, delta_form, plan_form
from planbench.planner.delta import PlanDelta, read_delta
from planbench.planner.offer import MAX_CHARS, Catalog, offer
from planbench.planner.talk import Talk
from planbench.tools import is_allowed
from planbench.validation import (
    ValidationReport,
    check_plan,
    patterns_of,
    registry_of,
    secrets_of,
)
from planbench.validation.host import Host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from planbench.llm.client import ModelClient, OnText, ReplySchema, Usage
    from planbench.plan.manifest import ArtifactRef
    from planbench.tools import ToolRegistry

_MAX_NAME: Final = 40
_NO_VALUE: Final = (
    "nobody gives it one: write the value itself, or declare the parameter with a default"
)
_WORD: Final = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class AuthoredPlan:
    """What a planner wrote, and what the check says of it.

    ``plan`` is there when the answer is a plan, also when ``report`` is not ok: it can be
    drawn, mended by hand or revised, and may not run. ``attempts`` counts calls of the
    model, ``usage`` what they took, ``text`` is the answer as it came, ``catalog`` what the
    model was told of the tools.
    """

    plan: ExecutionPlan | None
    report: ValidationReport
    attempts: int
    usage: Usage
    text: str
    model: str | None
    catalog: Catalog

    def require(self) -> ExecutionPlan:
        """Give the plan when it may run; raises PlanAuthoringError with the report otherwise."""
        if self.plan is not None and self.report.ok:
            return self.plan
        errors = [str(issue) for issue in self.report.issues if issue.severity == "error"]
        raise PlanAuthoringError(
            "plan_invalid",
            "\n".join([f"the plan that the model wrote has {len(errors)} errors", *errors[:20]]),
            report=self.report,
            text=self.text,
            usage=self.usage,
            attempts=self.attempts,
            hint="mend it by hand, or revise it with a remark",
        )


class PlanPlanner:
    """Has a model write plans for the tools of a registry.

    ``llm`` is what ``client_of`` takes: a client, ``"provider:model"``, a class or a dict.
    ``allowed_tools`` (names and patterns; None allows all) is both what a plan may call
    and what the model is told of; ``max_catalog_chars`` bounds that text. ``env`` says
    which tools may receive which secret. The registry is read at each call.

    Each method asks the model once, and once more with the whole report when the answer
    does not pass its check. Answers that are truncated, refused, filtered or empty raise
    PlanAuthoringError with that code and are not asked for again; a model that cannot be
    asked raises ModelError. Everywhere ``tools`` narrows the allowed tools further, and
    ``on_text`` gets the text as it comes, of the second answer too.
    No prompt holds what a tool gave.
    """

    def __init__(
        self,
        llm: Any,
        registry: ToolRegistry | Iterable[Any],
        allowed_tools: Collection[str] | None = None,
        *,
        env: Mapping[str, Collection[str]] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        max_catalog_chars: int = MAX_CHARS,
    ) -> None:
        self.llm: ModelClient = client_of(llm)
        self.registry = registry_of(registry)
        self.allowed_tools = patterns_of(allowed_tools)
        self.env = secrets_of(env)
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.max_catalog_chars = max_catalog_chars

    async def author(
        self,
        objective: str,
        *,
        name: str | None = None,
        tools: Collection[str] | str | None = None,
        on_text: OnText | None = None,
        runs_as_is: bool = False,
    ) -> AuthoredPlan:
        """Have a plan written for an objective; ``name`` is the plan's name, whatever the model says.

        With ``runs_as_is`` nobody will give the plan values: a parameter without a default
        is an error then, and corrected as any other.
        """
        objective = _said(objective)
        catalog = self.catalog(objective, tools)
        prompt = prompts.authoring(objective, catalog)
        return await self._authored(
            prompt, catalog, objective, name, tools, on_text, runs_as_is=runs_as_is
        )

    async def revise(
        self,
        plan: ExecutionPlan | str,
        report: ValidationReport | None = None,
        remark: str = "",
        *,
        tools: Collection[str] | str | None = None,
        on_text: OnText | None = None,
    ) -> AuthoredPlan:
        """Have a plan changed as ``remark`` says, or as its report needs; a str may be broken text.

        Without ``report`` the plan is checked here.
        """
        allowed = self._allowed(tools)
        if report is None:
            report = check_plan(plan, self.registry, allowed, env=self.env)
        known = plan if isinstance(plan, ExecutionPlan) else report.plan or report.draft
        objective = _objective_of(known)
        name = None if known is None else known.name
        catalog = self.catalog(f"{objective or ''} {remark}", tools)
        text = plan if isinstance(plan, str) else plan.to_json()
        prompt = prompts.revision(text, objective, report.issues, remark, catalog)
        return await self._authored(prompt, catalog, objective, name, tools, on_text)

    async def repair_delta(
        self,
        plan: ExecutionPlan,
        failures: Sequence[ArtifactRef],
        replaceable: Collection[str],
        *,
        refs: Sequence[ArtifactRef] = (),
        tools: Collection[str] | str | None = None,
        on_text: OnText | None = None,
    ) -> PlanDelta:
        """Have the failed nodes of a run replaced.

        ``failures`` are the refs of what failed, ``replaceable`` the ids that the answer
        may hold, ``refs`` those of all nodes. Raises PlanAuthoringError with the code
        delta_invalid when the answer is still wrong after its one correction.
        """
        allowed = self._allowed(tools)
        ids = [node.id for node in plan.nodes if node.id in set(replaceable)]
        catalog = self.catalog(plan.objective, tools)
        prompt = prompts.repair(plan.to_json(), failures, refs, ids, catalog)
        replaced: list[str] = []

        def judge(text: str) -> ValidationReport:
            report, found = read_delta(text, plan, ids, self.registry, allowed, self.env)
            replaced[:] = found
            return report

        talk = self._talk(prompts.LANGUAGE + prompts.DELTA, prompt, delta_form(), on_text)
        answer = await talk.outcome(judge)
        mended = answer.report.plan
        if mended is None or not answer.report.ok:
            errors = [str(issue) for issue in answer.report.issues if issue.severity == "error"]
            raise PlanAuthoringError(
                "delta_invalid",
                "\n".join(["the repair that the model wrote cannot be used", *errors[:20]]),
                report=answer.report,
                text=answer.text,
                usage=talk.usage,
                attempts=talk.attempts,
            )
        return PlanDelta(
            nodes=tuple(node for node in mended.nodes if node.id in replaced),
            plan=mended,
            report=answer.report,
            attempts=talk.attempts,
            usage=talk.usage,
            text=answer.text,
            model=talk.model,
            catalog=catalog,
        )

    def prompt(self, objective: str, *, tools: Collection[str] | str | None = None) -> str:
        """Give all that the model would be told as one text, for a chat window."""
        objective = _said(objective)
        catalog = self.catalog(objective, tools)
        return prompts.LANGUAGE + "\n\n" + prompts.authoring(objective, catalog)

    def catalog(self, objective: str = "", tools: Collection[str] | str | None = None) -> Catalog:
        """Give what the model is told of the allowed tools; raises ConfigurationError for none."""
        allowed = self._allowed(tools)
        found = [one for one in self.registry.list_tools() if is_allowed(one.name, allowed)]
        if not found:
            raise ConfigurationError(
                "a planner needs tools, and none is registered and allowed",
                hint="look at the registry, at allowed_tools and at the pattern for tools",
            )
        return offer(found, objective, self.max_catalog_chars)

    # -- inside ------------------------------------------------------------------------

    async def _authored(
        self,
        prompt: str,
        catalog: Catalog,
        objective: str | None,
        name: str | None,
        tools: Collection[str] | str | None,
        on_text: OnText | None,
        *,
        runs_as_is: bool = False,
    ) -> AuthoredPlan:
        host = Host(self.registry, self._allowed(tools), self.env)
        talk = self._talk(prompts.LANGUAGE, prompt, plan_form(), on_text)

        def change(record: dict[str, Any]) -> dict[str, Any]:
            own = {key: value for key, value in record.items() if key not in HOSTS}
            given = {"name": _name_of(objective or ""), "objective": objective or ""}
            return {**given, **own, **({} if name is None else {"name": name})}

        def judge(text: str) -> ValidationReport:
            report = read_plan(text, host, change)
            return self._with_values(report, tools) if runs_as_is else report

        answer = await talk.outcome(judge)
        plan, report = answer.report.plan, answer.report
        if plan is not None:
            came = Provenance(objective=objective, model=talk.model)
            plan = plan.model_copy(update={"provenance": came})
            report = report.model_copy(update={"plan": plan})
        return AuthoredPlan(
            plan, report, talk.attempts, talk.usage, answer.text, talk.model, catalog
        )

    def _with_values(
        self, report: ValidationReport, tools: Collection[str] | str | None
    ) -> ValidationReport:
        """Check a plan that is right so far with the values that its parameters have of themselves."""
        if report.plan is None or not report.ok or not wanted(report.plan):
            return report
        found = check_plan(report.plan, self.registry, self._allowed(tools), {}, env=self.env)
        if found.ok:
            return report
        errors = [
            issue.model_copy(update={"fix": _NO_VALUE}) if issue.code == "missing_param" else issue
            for issue in found.issues
            if issue.severity == "error"
        ]
        return report.model_copy(update={"ok": False, "issues": [*report.issues, *errors]})

    def _talk(self, system: str, prompt: str, form: ReplySchema, on_text: OnText | None) -> Talk:
        request = ModelRequest(
            messages=[
                Message(role="system", content=system),
                Message(role="user", content=prompt),
            ],
            schema=form,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            on_text=on_text,
        )
        return Talk(self.llm, request)

    def _allowed(self, tools: Collection[str] | str | None) -> Collection[str] | None:
        """Give what may be called: the host's tools, of these the ones that are asked for."""
        wanted = patterns_of(tools)
        if wanted is None:
            return self.allowed_tools
        return [
            name
            for name in self.registry.names()
            if is_allowed(name, self.allowed_tools) and is_allowed(name, wanted)
        ]


def _said(objective: Any) -> str:
    if not isinstance(objective, str) or not objective.strip():
        raise ConfigurationError(
            "the objective is empty: say what the plan is for",
            hint='write: await planner.author("Compare the reports of today and yesterday")',
        )
    return objective.strip()


def _objective_of(plan: ExecutionPlan | None) -> str | None:
    if plan is None:
        return None
    asked = plan.provenance.objective if plan.provenance is not None else None
    return asked or plan.objective


def _name_of(objective: str) -> str:
    """Make a name of the first words of an objective, for an answer that gives none."""
    name = "_".join(word.lower() for word in _WORD.findall(objective))[:_MAX_NAME].strip("_")
    return name or "plan"
