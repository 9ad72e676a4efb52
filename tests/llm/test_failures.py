"""What is said of a connection that broke."""

import asyncio
import datetime as dt
import json
import socket
import struct
import threading
from email.utils import format_datetime
from urllib.parse import quote

import pytest

from planbench.errors import ModelError
from planbench.llm import OpenAIClient
from planbench.llm.client import Message, ModelRequest
from planbench.llm.endpoints import Address
from planbench.llm.failures import Failures

SECRET = 'sk-"a+b/c\\d=e"'


def failures():
    return Failures(Address("http://127.0.0.1:9/v1", is_own=False), "m", (), (SECRET,))


def reset(listening):
    """Take one request and reset its connection, as a server that dies does."""
    connection, _ = listening.accept()
    connection.recv(65_536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_connection_that_is_reset_says_so_and_not_only_the_name_of_an_error():
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")

    async def main(url):
        async with OpenAIClient("m", url, "key", max_retries=0) as client:
            await client.complete(ModelRequest(messages=[Message(role="user", content="hi")]))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=reset, args=(listening,))
        thread.start()
        with pytest.raises(ModelError) as caught:
            asyncio.run(main(f"http://127.0.0.1:{listening.getsockname()[1]}/v1"))
        thread.join()

    assert caught.value.code == "model_unreachable"
    assert "APIConnectionError" not in caught.value.message
    assert "reset by peer" in caught.value.message


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        SECRET.upper(),
        json.dumps(SECRET)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
    ],
)
def test_a_key_is_masked_in_each_form_and_in_each_field_of_an_error(written):
    error = failures().refused(400, f"no {written}.", detail=f"code {written}")

    assert "answered 400: no ***." in str(error)
    assert error.detail == "code ***"
    assert written not in repr(vars(error))


def test_a_wait_is_told_whether_it_is_written_as_seconds_or_as_a_date():
    until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)
    past = dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)

    def wait(**headers):
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return failures().refused(429, "slow", headers=named).retry_after

    assert wait(retry_after="7.5") == 7.5
    assert wait(retry_after_ms="7500", retry_after="90") == 7.5
    assert 7_000 < wait(retry_after=format_datetime(until, usegmt=True)) <= 7_201
    assert 7_000 < wait(retry_after=until.strftime("%a, %d %b %Y %H:%M:%S -0000")) <= 7_201
    assert wait(retry_after=format_datetime(past)) == 0
    for odd in ("", "soon", "-1", "nan", "inf", "1e400", "Wed, 99 Foo 2026 00:00:00 GMT"):
        assert wait(retry_after=odd) is None
    assert wait() is None
