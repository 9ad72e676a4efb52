import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import pytest

from planbench.llm.fake import text, tool_call
from planbench.llm.server import ScriptedServer, failure, raw, slow


def post(server, body):
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request(
            "POST",
            f"{parts.path}/chat/completions",
            json.dumps(body) if isinstance(body, dict) else body,
            {"Authorization": "Bearer k"},
        )
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_it_serves_this_machine_only_and_each_server_has_its_port():
    with ScriptedServer([]) as one, ScriptedServer([]) as other:
        assert one.url.startswith("http://127.0.0.1:")
        assert one.url != other.url


def test_a_completion_has_the_form_of_openai():
    with ScriptedServer([text("hi", input_tokens=2, output_tokens=3)]) as server:
        status, headers, body = post(server, {"model": "m"})

    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5},
    }


def test_a_stream_ends_with_its_usage_and_the_word_done():
    asked = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    with ScriptedServer([tool_call("f", x="a longer text")]) as server:
        _, headers, body = post(server, asked)

    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert headers["content-type"] == "text/event-stream"
    assert lines[-1] == "[DONE]"
    assert "usage" in json.loads(lines[-2])
    assert sum("tool_calls" in line for line in lines) > 3


def test_requests_are_on_record_with_their_headers_and_these_are_not_shown():
    with ScriptedServer(["x"]) as server:
        post(server, {"model": "m", "n": 1})

        [received] = server.requests
        assert received.path == "/v1/chat/completions"
        assert received.headers["authorization"] == "Bearer k"
        assert "Bearer" not in repr(received)
        assert server.bodies == [{"model": "m", "n": 1}]


def test_a_function_sees_the_request_and_its_fault_is_told_to_the_client():
    def script(received):
        return received.body["model"].upper() if "model" in received.body else received.nothing

    with ScriptedServer(script) as server:
        assert '"content": "M"' in post(server, {"model": "m"})[2]
        status, _, body = post(server, {})
    assert status == 400
    assert "the script raised AttributeError" in body


def test_a_request_beyond_the_script_is_told_so():
    with ScriptedServer([]) as server:
        status, _, body = post(server, {})

    assert status == 400
    assert "no answer for request 1" in body


def test_a_failure_carries_its_wait_and_its_code():
    with ScriptedServer([failure(429, "busy", retry_after=1.5, code="c", param="p")]) as server:
        status, headers, body = post(server, {})

    assert (status, headers["retry-after"]) == (429, "1.5")
    assert json.loads(body)["error"] == {
        "message": "busy",
        "type": "scripted",
        "code": "c",
        "param": "p",
    }


def test_many_connections_at_once_are_all_answered():
    gate = threading.Barrier(60)
    found = []

    def ask(server):
        gate.wait(10)
        found.append(post(server, {"model": "m"})[0])

    with ScriptedServer(lambda request: text("hi")) as server:
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert found == [200] * 60


def test_a_text_may_be_sent_as_it_stands():
    with ScriptedServer([raw("<p>", content_type="text/html", status=502)]) as server:
        assert post(server, b"no json")[0::2] == (502, "<p>")


def test_a_server_that_is_closed_waits_for_no_slow_answer():
    before = set(threading.enumerate())
    started = time.monotonic()
    with ScriptedServer([slow("late", 60)]) as server:
        asking = threading.Thread(target=lambda: post(server, {}))
        asking.start()
        while not server.requests:
            time.sleep(0.005)
    asking.join(10)

    assert time.monotonic() - started < 20
    assert not asking.is_alive()
    assert not [one for one in set(threading.enumerate()) - before if one.name == "scripted-server"]


@pytest.mark.parametrize("answer", ["a", text("a")])
def test_a_str_is_a_text(answer):
    with ScriptedServer([answer]) as server:
        assert '"content": "a"' in post(server, {})[2]
