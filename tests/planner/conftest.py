"""Tools to plan with, and a planner whose model is a real client of a scripted server."""

from __future__ import annotations

import asyncio

import pytest

from planbench import ToolRegistry
from planbench.errors import PlanbenchError
from planbench.llm import OpenAIClient
from planbench.llm.server import ScriptedServer
from planbench.planner import PlanPlanner


def list_files(folder: str) -> dict:
    """List the files of a {folder}.

    It gives names, }never{ contents.
    """
    return {"files": [folder]}


def read_file(path: str, limit: int = 10) -> str:
    """Read a file."""
    return path[:limit]


class Exchange:
    """What a planner gave for a script, and what it had asked."""

    def __init__(self, server, outcome):
        self.bodies = server.bodies
        self.outcome = outcome

    @property
    def prompts(self):
        return [[message["content"] for message in body["messages"]] for body in self.bodies]

    @property
    def value(self):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def tools():
    return ToolRegistry([list_files, read_file])


@pytest.fixture
def exchange(tools):
    """Let ``work(planner)`` talk to a server with a script."""

    def exchanged(script, work, registry=tools, **options):
        async def main(server):
            async with OpenAIClient("planner-1", server.url, "key") as client:
                try:
                    return await work(PlanPlanner(client, registry, **options))
                except PlanbenchError as error:
                    return error

        with ScriptedServer(script) as server:
            return Exchange(server, asyncio.run(main(server)))

    return exchanged
