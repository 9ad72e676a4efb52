"""What all algorithms do alike: read their inputs, and take a model's answer or say why it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planbench.errors import AlgorithmFailed, ConfigurationError
from planbench.llm.client import CONTENT_FILTER, LENGTH
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.llm.client import ModelReply

_SHOWN: Final = 300


def checked_task(inputs: Mapping[str, Any]) -> str:
    """Give the task that inputs tell; raises ConfigurationError."""
    task = inputs.get("task")
    if not isinstance(task, str) or not task.strip():
        found = "there is none" if "task" not in inputs else f"it is {shown(task)}"
        raise ConfigurationError(
            f"the inputs need a task in words, and {found}",
            hint='write: await engine.start(algorithm, {"task": "..."})',
        )
    return task


def checked_model(model: Any) -> str | None:
    """Give the name of a model as it is; raises ConfigurationError for anything else."""
    if model is None or (isinstance(model, str) and model.strip()):
        return model
    raise ConfigurationError(
        f"model is the name of a model, not {shown(model)}",
        hint="the client is the engine's: LLMHandler(client).attach(engine)",
    )


def text_of(reply: ModelReply) -> str:
    """Give the text of a whole answer; raises AlgorithmFailed for what is none."""
    said = " ".join((reply.refusal or reply.content).split())[:_SHOWN]
    if reply.refusal is not None or reply.finish_reason == "refusal":
        raise AlgorithmFailed("the model refused" + (f": {said}" if said else ""))
    if reply.finish_reason == CONTENT_FILTER:
        raise AlgorithmFailed("a content filter stopped the answer of the model")
    if reply.finish_reason == LENGTH:
        raise AlgorithmFailed("the answer of the model was cut off at the limit of tokens")
    if not reply.content.strip():
        raise AlgorithmFailed("the model gave an empty answer")
    return reply.content
