"""Keeps the values that calls are using in a memory with a budget, and makes room after stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from planbench.memory import WorkingMemory
    from planbench.memory.entries import Entry

    Held = list[Entry]

LARGE: Final = 1_000_000
"""Bytes above which a spilled value is read back off the loop."""


class Room:
    """Pins what is in use; a memory without a budget needs none of this, and has none."""

    def __init__(
        self,
        memory: WorkingMemory,
        bodies: Mapping[str, Entry | list[Entry | None]],
        aside: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._memory = memory
        self._bodies = bodies
        self._aside = aside
        self._held: dict[int, Held] = {}

    async def hold(self, node_ids: Iterable[str]) -> Held:
        """Pin what nodes have stored, and read back what was spilled; ``give_back`` ends it."""
        held: Held = []
        for node_id in node_ids:
            body = self._bodies.get(node_id)
            entries = body if isinstance(body, list) else [body]
            held += [entry for entry in entries if entry is not None]
        for entry in held:
            entry.pin()
        self._held[id(held)] = held
        for entry in held:
            if entry.spilled and entry.nbytes > LARGE:
                await self._aside(lambda entry=entry: entry.value)  # type: ignore[misc]  # the one of now
        return held

    def give_back(self, held: Held | None) -> None:
        """Let go of what was held; a second time changes nothing."""
        for entry in self._held.pop(id(held), ()):
            entry.unpin()

    async def close(self) -> None:
        """Let go of everything: the run has ended."""
        for held in list(self._held.values()):
            self.give_back(held)
        await self.make()

    async def make(self) -> None:
        """Spill until the budget is kept, off the loop."""
        if self._memory.over:
            await self._aside(self._memory.spill)
