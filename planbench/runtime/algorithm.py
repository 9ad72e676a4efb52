"""What an engine runs beside plans: anything with a name that does a task through an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.runtime.agent import Agent


@runtime_checkable
class Algorithm(Protocol):
    """Anything that does a task with models, tools and child runs.

    ``name`` is unique in an engine: a run is resumed by it. What ``run`` gives is the value
    of the run, what it raises its failure, with the message as the reason. All that it
    does to the world goes through ``agent``, and apart from that it does the same every
    time: then it can be resumed. Attributes that are looked at where they are there:
    ``model``, the model that it asks; ``executors``, the algorithms that it runs as
    children; ``check(inputs)``, which raises ConfigurationError before a run starts.
    """

    @property
    def name(self) -> str:
        """What the algorithm is called."""
        ...

    async def run(self, agent: Agent, inputs: Mapping[str, Any]) -> Any:
        """Do the task that ``inputs`` tell and give what came of it."""
        ...


def is_algorithm(work: object) -> bool:
    """Whether something can be run: it has a name, and ``async run(agent, inputs)``."""
    return not isinstance(work, type) and isinstance(work, Algorithm) and callable(work.run)
