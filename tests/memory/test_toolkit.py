"""The tools with which an agent reads and makes what is in a working memory."""

import asyncio
import json

import pandas as pd
import pytest

from planbench import ToolRegistry, WorkingMemory, WorkingMemoryToolkit
from planbench.errors import ConfigurationError, ToolArgumentsInvalid
from planbench.memory.toolkit import LISTED

CANARY = "CANARY-5551234"


@pytest.fixture
def kit():
    memory = WorkingMemory()
    memory.put("listing", {"n": 2}, node="listing", tool="list", description="What there is")
    items = memory.start_items("fetch")
    for index in range(2):
        body = {"id": index, "findings": [{"uid": f"{index}{i}"} for i in range(3)]}
        memory.put_item(f"fetch.{index}", body, "fetch", "get", index, 100, None, None, items)
    memory.put("big", {"text": "x" * 5_000 + CANARY, "n": list(range(1_000))})
    memory.put("table", pd.DataFrame({"x": range(100), "y": ["a"] * 99 + [CANARY]}))
    return WorkingMemoryToolkit(memory, max_rehydrate_bytes=2_000)


def ask(awaitable):
    return asyncio.run(awaitable)


def result(awaitable):
    answer = ask(awaitable)
    assert answer.success, answer
    assert (answer.status, answer.error, answer.error_code) == ("success", None, None)
    json.dumps(answer.result)
    return answer.result


def refusal(awaitable):
    answer = ask(awaitable)
    assert not answer.success, answer
    assert answer.status == "error"
    assert len(answer.error) <= 1_000
    assert CANARY not in answer.model_dump_json()
    return answer


# As tools


def test_the_tools_register_with_what_they_do(kit):
    registry = ToolRegistry([kit])
    assert {tool.name: tool.effects for tool in registry} == {
        "wm_list": "read",
        "wm_get_result": "read",
        "wm_search": "read",
        "wm_store_result": "write",
        "wm_drop": "destructive",
        "wm_compute": "write",
    }
    assert all(tool.is_async and tool.description for tool in registry)
    answer = ask(registry.execute_tool("wm_get_result", {"key": "listing"}))
    assert answer.result["summary"] == '{"n": 2}'
    with pytest.raises(ToolArgumentsInvalid):
        ask(registry.execute_tool("wm_get_result", {"key": 5}))


def test_without_arguments_the_toolkit_makes_its_own_memory():
    kit = WorkingMemoryToolkit()
    assert kit.max_rehydrate_bytes == 2_000_000
    result(kit.wm_store_result("a", [1]))
    assert kit.memory["a"] == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": {}},
        {"max_rehydrate_bytes": -1},
        {"max_rehydrate_bytes": "x"},
        {"answer_memory": 5},
    ],
)
def test_what_no_toolkit_is_made_of_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        WorkingMemoryToolkit(**wrong)


# Listing and searching


def test_wm_list_names_kinds_and_sizes_and_no_values(kit):
    found = result(kit.wm_list())
    assert [row["key"] for row in found["entries"]] == [
        "listing", "fetch.0", "fetch.1", "big", "table",
    ]  # fmt: skip
    assert found["total"] == 5
    assert found["bytes"] == kit.memory.nbytes
    assert found["fan_outs"] == {"fetch": 2}
    assert found["entries"][0] == {
        "key": "listing",
        "entry_type": "json",
        "bytes": kit.memory.info("listing").nbytes,
        "rows": None,
        "columns": None,
        "version": 1,
        "node": "listing",
        "tool": "list",
        "description": "What there is",
    }
    assert CANARY not in json.dumps(found)


def test_wm_list_takes_keys_nodes_and_patterns(kit):
    assert [row["key"] for row in result(kit.wm_list("fetch"))["entries"]] == ["fetch.0", "fetch.1"]
    assert result(kit.wm_list("*.1"))["total"] == 1
    assert result(kit.wm_list("nothing.*"))["total"] == 0
    assert refusal(kit.wm_list("fetsh")).result["near"][0] == "fetch"


def test_lists_are_bounded_however_much_is_stored():
    kit = WorkingMemoryToolkit()
    for number in range(3 * LISTED):
        kit.memory.put(
            "k" * 600 + str(number), 1, description="d" * 10_000, node=f"n{number}", index=0
        )
    for answer in (kit.wm_list(), kit.wm_search("k")):
        found = result(answer)
        assert found["total"] == 3 * LISTED
        assert len(found["entries"]) == LISTED
        assert len(json.dumps(found)) < 200_000


def test_wm_search_looks_at_what_is_known_of_results(kit):
    assert [row["key"] for row in result(kit.wm_search("WHAT there"))["entries"]] == ["listing"]
    assert result(kit.wm_search("get", "json"))["total"] == 2
    assert result(kit.wm_search("", "dataframe"))["total"] == 1
    assert result(kit.wm_search(CANARY))["total"] == 0
    wrong = refusal(kit.wm_search("x", "jsn"))
    assert "did you mean 'json'" in wrong.error


# Reading


@pytest.mark.parametrize("key", ["big", "table", "fetch"])
@pytest.mark.parametrize("length", [1, 50, 500, 10**9])
def test_a_summary_is_as_long_as_asked_and_shows_nothing_beyond(kit, key, length):
    found = result(kit.wm_get_result(key, max_length=length))
    assert len(found["summary"]) <= min(length, 10_000)
    assert CANARY not in json.dumps(found)
    assert "data" not in found


def test_a_node_id_means_all_its_items(kit):
    found = result(kit.wm_get_result("fetch", include_raw=True))
    assert found["rows"] == 2
    assert found["summary"].startswith("fan-out of 2 items: fetch.0 = {")
    assert [body["id"] for body in found["data"]] == [0, 1]
    assert result(kit.wm_get_result("listing", include_raw=True))["data"] == {"n": 2}


def test_a_table_is_given_as_columns_and_rows():
    kit = WorkingMemoryToolkit()
    kit.memory.put("t", pd.DataFrame({"x": [1, 2], "y": ["a", None]}))
    found = result(kit.wm_get_result("t", include_raw=True))
    assert found["data"] == {"columns": ["x", "y"], "rows": [[1, "a"], [2, None]]}


def test_a_body_over_the_ceiling_is_refused_with_what_to_do(kit):
    answer = refusal(kit.wm_get_result("big", include_raw=True))
    assert answer.error_code == "too_large"
    assert answer.result["bytes"] == kit.memory.info("big").nbytes
    assert answer.result["max_rehydrate_bytes"] == 2_000
    assert "wm_compute" in answer.error
    assert result(kit.wm_get_result("big"))["summary"]


def test_a_body_that_is_small_in_memory_and_large_as_json_is_refused_too():
    kit = WorkingMemoryToolkit(max_rehydrate_bytes=1_000)
    kit.memory.put("b", b"x" * 900)
    assert refusal(kit.wm_get_result("b", include_raw=True)).error_code == "too_large"
    kit.memory.put("c", b"x" * 600)
    assert len(result(kit.wm_get_result("c", include_raw=True))["data"]["base64"]) == 800


def test_a_body_that_has_no_json_is_refused_with_its_kind():
    class Thing:
        pass

    kit = WorkingMemoryToolkit()
    kit.memory.put("o", {"a": [Thing()]})
    answer = refusal(kit.wm_get_result("o", include_raw=True))
    assert answer.error_code == "artifact_refused"
    assert "a[0] is a Thing" in answer.error


@pytest.mark.parametrize("call", ["wm_get_result", "wm_drop"])
@pytest.mark.parametrize("key", ["fetsh", "fetch.*", "no" * 10_000])
def test_a_missing_key_is_an_answer_with_near_keys(kit, call, key):
    answer = refusal(getattr(kit, call)(key))
    assert answer.error_code == "artifact_not_found"
    assert isinstance(answer.result["near"], list)
    if key == "fetsh":
        assert "fetch" in answer.result["near"]


def test_a_spilled_result_is_read_in_a_thread(tmp_path):
    memory = WorkingMemory(1_000, tmp_path)
    kit = WorkingMemoryToolkit(memory)
    memory.put("a", {"text": "".join(["a"] * 2_000)})
    assert memory.peek("a").spilled
    assert result(kit.wm_list())["total"] == 1
    assert memory.peek("a").spilled
    assert len(result(kit.wm_get_result("a", include_raw=True))["data"]["text"]) == 2_000
    for path in tmp_path.rglob("*.spill"):
        path.unlink()
    memory.put("b", {"text": "".join(["b"] * 2_000)})
    assert memory.peek("a").spilled
    assert refusal(kit.wm_get_result("a")).error_code == "artifacts_unavailable"


# Writing


def test_stored_data_is_there_under_its_key(kit):
    found = result(kit.wm_store_result("note", {"a": [1, None, "x"]}, "a note"))
    assert (found["key"], found["version"], found["description"]) == ("note", 1, "a note")
    assert kit.memory["note"] == {"a": [1, None, "x"]}
    assert result(kit.wm_store_result("note", 5))["version"] == 2


@pytest.mark.parametrize("data", [(1,), {1: 2}, float("nan"), object(), {"a": {"b": [b"x"]}}])
def test_what_is_no_json_is_not_stored(kit, data):
    answer = refusal(kit.wm_store_result("note", data))
    assert answer.error_code == "artifact_refused"
    assert "note" not in kit.memory


@pytest.mark.parametrize("key", ["", "x" * 501])
def test_a_key_has_a_length_that_can_be_written(kit, key):
    assert refusal(kit.wm_store_result(key, 1)).error_code == "artifact_refused"


def test_wm_drop_forgets_keys_and_nodes(kit):
    before = kit.memory.nbytes
    found = result(kit.wm_drop("fetch"))
    assert found == {"dropped": ["fetch.0", "fetch.1"], "total": 2, "bytes": 200}
    assert kit.memory.nbytes == before - 200
    assert result(kit.wm_drop("listing"))["dropped"] == ["listing"]
    assert refusal(kit.wm_drop("listing")).error_code == "artifact_not_found"


def test_wm_compute_stores_a_table_and_describes_it(kit):
    spec = {
        "source": "fetch",
        "select": "findings[]",
        "ops": [{"op": "value_counts", "column": "key"}],
        "store_as": "counts",
        "description": "findings by report",
    }
    found = result(kit.wm_compute(spec))
    assert (found["key"], found["rows"], found["columns"]) == ("counts", 2, 2)
    assert found["column_names"] == ["key", "count"]
    assert '("fetch.0", 3)' in found["summary"]
    assert kit.memory.info("counts").description == "findings by report"
    assert kit.memory.df("counts")["count"].tolist() == [3, 3]
    again = {"source": "counts", "ops": [{"op": "head", "n": 1}]}
    assert result(kit.wm_compute(again))["key"] == "computed.1"
    assert result(kit.wm_compute(again))["key"] == "computed.2"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"source": "nothing"}, "artifact_not_found"),
        ({"source": "table", "ops": [{"op": "query"}]}, "invalid_arguments"),
        ({"source": "table", "ops": [{"op": "sort", "by": "z"}]}, "invalid_arguments"),
        ({"source": "fetch", "select": "finding[]"}, "bad_path"),
        ({"source": "fetch", "select": "findings[]", "label": "uid"}, "bad_frame"),
        ("table", "invalid_arguments"),
    ],
)
def test_a_spec_that_cannot_be_done_is_an_answer_and_stores_nothing(kit, spec, code):
    before = kit.memory.keys()
    assert refusal(kit.wm_compute(spec)).error_code == code
    assert kit.memory.keys() == before


def test_a_value_whose_own_code_raises_is_an_answer_that_quotes_nothing_of_it(kit):
    class Raising:
        def __getattr__(self, name):
            raise RuntimeError(CANARY)

    kit.memory.put("odd", Raising())
    for call in (
        kit.wm_get_result("odd", include_raw=True),
        kit.wm_compute({"source": "odd", "ops": [{"op": "dedupe"}]}),
    ):
        answer = refusal(call)
        assert answer.error_code == "artifact_refused"
        assert "raised RuntimeError when it was looked at" in answer.error


def test_what_is_computed_under_a_budget_is_spilled_with_the_rest(tmp_path):
    kit = WorkingMemoryToolkit(WorkingMemory(5_000, tmp_path))
    kit.memory.put("t", pd.DataFrame({"x": range(500)}))
    for _ in range(4):
        result(kit.wm_compute({"source": "t"}))
    assert kit.memory.resident_bytes <= 5_000
    assert all(kit.memory.df(f"computed.{n}")["x"].sum() == 124_750 for n in range(1, 5))


# The agent's own answers


def test_answers_are_found_and_read_beside_the_results(kit):
    kit.answer_memory = {"summary of monday": {"text": "all green"}, "turn 2": "x" * 3_000, 5: "no"}
    found = result(kit.wm_search("monday"))
    assert found["entries"] == [
        {"key": "summary of monday", "source": "answers", "entry_type": "json"}
    ]
    body = result(kit.wm_get_result("summary of monday", include_raw=True))
    assert (body["source"], body["data"]) == ("answers", {"text": "all green"})
    assert len(result(kit.wm_get_result("turn 2", max_length=100))["summary"]) <= 100
    assert refusal(kit.wm_get_result("turn 2", include_raw=True)).error_code == "too_large"
    assert result(kit.wm_list("turn*"))["answers"] == ["turn 2"]
    assert result(kit.wm_list("turn 2"))["answers"] == ["turn 2"]
    assert refusal(kit.wm_get_result("turn")).result["near"] == ["turn 2"]
    assert refusal(kit.wm_drop("turn 2")).error_code == "artifact_not_found"
    assert result(kit.wm_search("", "text"))["total"] == 1


def test_results_go_before_answers_of_the_same_name(kit):
    kit.answer_memory = {"listing": "an answer"}
    assert result(kit.wm_get_result("listing"))["summary"] == '{"n": 2}'


def test_another_working_memory_may_hold_the_answers(kit):
    answers = WorkingMemory()
    answers.put("yesterday", [1, 2])
    kit.answer_memory = answers
    assert result(kit.wm_get_result("yesterday", include_raw=True))["data"] == [1, 2]


def test_answers_are_injected_once_and_given_ones_stay():
    kit = WorkingMemoryToolkit()
    first = {"a": 1}
    assert kit.inject_answer_memory(first)
    assert not kit.inject_answer_memory({"b": 2})
    assert kit.answer_memory is first
    given = {}
    kit = WorkingMemoryToolkit(answer_memory=given)
    assert not kit.inject_answer_memory(first)
    assert kit.answer_memory is given
    with pytest.raises(ConfigurationError, match="keys"):
        WorkingMemoryToolkit().inject_answer_memory(5)
