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
_MOST_CALLS: Final = 5


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


def checked_prompt(name: str, prompt: Any) -> str:
    """Give a prompt as it is; raises ConfigurationError for what is no text, or an empty one."""
    if isinstance(prompt, str) and prompt.strip():
        return prompt
    raise ConfigurationError(
        f"{name} is the text that the model is told first, not {shown(prompt)}",
        hint="leave it out for the built-in one",
    )


def asks_for_calls(reply: ModelReply) -> bool:
    """Whether calls are to be made: of an answer that was refused or filtered, none is."""
    is_stopped = reply.refusal is not None or reply.finish_reason in ("refusal", CONTENT_FILTER)
    return bool(reply.tool_calls) and not is_stopped


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
        if reply.tool_calls:
            named = ", ".join(shown(call.name) for call in reply.tool_calls[:_MOST_CALLS])
            raise AlgorithmFailed(f"the model called {named} where no tool was offered")
        raise AlgorithmFailed("the model gave an empty answer")
    return reply.content
