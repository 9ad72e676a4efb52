"""The route that lists plans, for those who are logged in."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import authenticated

from planbench.errors import PlanLoadError

if TYPE_CHECKING:
    from pathlib import Path


class PlansHandler(APIHandler):
    """Answers ``GET`` with the plans of one folder, by their bare names."""

    auth_resource = "contents"

    def initialize(self, folder: Path, shown: str) -> None:
        """Take the folder, and the name by which the answer calls it."""
        self._folder = folder
        self._shown = shown

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer ``{"plans_dir", "plans": [{"name", "file", "objective", "nodes", "ok", "error"}]}``.

        A folder that is not there has no plans. ``error`` is the first thing that is
        wrong with the file of a plan.
        """
        try:
            plans = await asyncio.to_thread(listed, self._folder)
        except PlanLoadError as error:
            self.set_status(500)
            self.finish(json.dumps({"message": error.message, "reason": "plans_dir_unavailable"}))
            return
        self.finish(json.dumps({"plans_dir": self._shown, "plans": plans}))


def listed(folder: Path) -> list[dict[str, Any]]:
    """Describe the plans of a folder as JSON values; reads every file, so it takes its time."""
    from planbench.files import PlanFileStore  # noqa: PLC0415 - a server starts without waiting for the language

    return [
        {
            "name": entry.name,
            "file": entry.path.name,
            "objective": entry.objective,
            "nodes": entry.nodes,
            "ok": entry.ok,
            "error": entry.error,
        }
        for entry in PlanFileStore(folder).list()
    ]
