"""A real client and a scripted server, over HTTP on this machine."""

from __future__ import annotations

import asyncio

import pytest

from planbench.errors import PlanbenchError
from planbench.llm import Message, ModelRequest, OpenAIClient
from planbench.llm.endpoints import PROVIDERS
from planbench.llm.server import ScriptedServer

KEY = "sk-very-secret-0123456789"
AMBIENT = ["OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"]


def request(text="q", **fields):
    return ModelRequest([Message(role="user", content=text)], **fields)


class Asked:
    """What one client got for a list of requests: replies and errors, and what was sent."""

    def __init__(self, server, got):
        self.bodies = server.bodies
        self.headers = [one.headers for one in server.requests]
        self.got = got

    @property
    def one(self):
        [reply] = self.got
        if isinstance(reply, BaseException):
            raise reply
        return reply


@pytest.fixture
def ask():
    """Send requests to a script with one client, and give what came of each."""

    def asked(script, *requests, key=KEY, **options):
        async def main(server):
            got = []
            async with OpenAIClient("m", server.url, key, **options) as client:
                for one in requests or (request(),):
                    try:
                        got.append(await client.complete(one))
                    except PlanbenchError as error:
                        got.append(error)
            return got

        with ScriptedServer(script) as server:
            return Asked(server, asyncio.run(main(server)))

    return asked


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    """No key and no address of the machine that the tests run on."""
    for provider in PROVIDERS.values():
        for variable in provider.keys:
            monkeypatch.delenv(variable, raising=False)
    for variable in AMBIENT:
        monkeypatch.delenv(variable, raising=False)
