"""The runs of a toolkit: those at work, and the latest of those that have ended."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from planbench.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from planbench.runtime import Run


class Roster:
    """Keeps runs by id; ended ones above the limit are let go, the oldest first, live ones never."""

    def __init__(self, limit: int, let_go: Callable[[Run], None]) -> None:
        if type(limit) is not int or limit < 0:
            raise ConfigurationError(f"max_completed_runs is a number of runs, not {limit!r}")
        self._limit = limit
        self._let_go = let_go
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._newest: dict[str, str] = {}

    def add(self, run: Run, parent_id: str | None = None) -> None:
        """Keep a run; with a parent, whoever asks for that one gets this."""
        self._runs.pop(run.run_id, None)
        self._runs[run.run_id] = run
        if parent_id is not None and parent_id != run.run_id:
            self._newest[parent_id] = run.run_id
        run.root.add_done_callback(lambda _: self._trim())

    def get(self, run_id: str) -> Run | None:
        """Give a run, or the newest of its children, if it is still kept."""
        while run_id in self._newest:
            run_id = self._newest[run_id]
        return self._runs.get(run_id)

    def _trim(self) -> None:
        ended = [run_id for run_id, run in self._runs.items() if run.finished and run.root.done()]
        for run_id in ended[: max(0, len(ended) - self._limit)]:
            self._let_go(self._runs.pop(run_id))
            self._newest = {a: b for a, b in self._newest.items() if b != run_id}
