"""What is said of a connection that broke."""

import asyncio
import socket
import struct
import threading

import pytest

from planbench.errors import ModelError
from planbench.llm import OpenAIClient
from planbench.llm.client import Message, ModelRequest


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
