"""No payload leaves by another door: a canary in every value, and a look at all that is written."""

import asyncio
import itertools

import orjson
import pandas as pd
import pytest

from planbench import events as ev

CANARY = "canary-7f3a"
COUNT = itertools.count()


def canary():
    """A string that is found wherever a part of it lands."""
    return f"{CANARY}-{next(COUNT)}"


@pytest.fixture
def swept(lab):
    """A run with canaries in results, resolved arguments, prints and exception texts."""

    async def source():
        return [
            {"name": f"item{i}", "secret": canary(), "rows": [{"s": canary()}]} for i in range(4)
        ]

    async def fetch(item, extra):
        print("said", canary())
        if item["name"] == "item1":
            raise ValueError(f"{canary()} {'x' * 1_000}")
        return {"secret": canary(), "item": item, canary(): 1}

    def thread(item):
        print(canary())
        return pd.DataFrame({"secret": [canary()], canary(): [1]})

    async def typed(item: int):
        return item

    async def swallows(item):
        return [canary()]

    async def bad(item):
        raise RuntimeError(canary())

    for tool in (source, fetch, thread, typed, swallows, bad):
        lab.tool(tool)
    each = {"source": "{artifacts.src}"}
    facets = {"counts": {"n": "item.rows[]"}, "paths": {"name": "item.name"}}
    return lab.run(
        lab.node("src", "source", facets={"counts": {"n": "[]"}}),
        lab.node(
            "fan", "fetch", {"item": "{item}", "extra": "text {artifacts.src}"}, "src",
            for_each=each, store_as="report_{item.name}", facets=facets,
        ),
        lab.node("odd", "typed", {"item": "{item}"}, "src", for_each=each),
        lab.node("frame", "thread", {"item": "{artifacts.src}"}, "src"),
        lab.node("bad", "bad", {"item": "{artifacts.src}"}, "src", retry={"max_attempts": 2}),
        lab.node("refused", "typed", {"item": "{artifacts.src}"}, "src"),
        lab.node("no", args={"value": "{artifacts.src}"}, after="src", when="ctx.artifacts.src.n > 100"),
        lab.node("ref", args={"value": "{nodes.fan.output}"}, after="fan"),
    )  # fmt: skip


def without_errors(record):
    """A record with the capped error messages taken out."""
    if isinstance(record, dict):
        return {k: without_errors(v) for k, v in record.items() if k not in ("error", "errors")}
    return [without_errors(v) for v in record] if isinstance(record, list) else record


def test_the_canaries_are_where_they_belong(lab, swept):
    assert swept.status == "partial"
    assert CANARY in repr(lab.memory["src"])
    assert CANARY in swept.state.nodes["fan"].output
    assert CANARY in repr(swept.refs["bad"].errors)


def test_no_event_but_output_and_capped_errors_holds_a_payload(swept):
    for event in swept.events:
        text = orjson.dumps(event.to_dict()).decode()
        if event.type == ev.NODE_OUTPUT:
            assert CANARY in text
            continue
        if CANARY in text:
            assert event.type in (ev.NODE_FAILED, ev.ITEM_FAILED, ev.NODE_RETRIED)
            assert len(event.data["error"]) <= 300
            assert CANARY not in orjson.dumps(without_errors(event.to_dict())).decode()


def test_no_manifest_and_no_ref_holds_a_payload_but_in_capped_errors(swept):
    record = swept.manifest().model_dump(mode="json")
    assert CANARY not in orjson.dumps(without_errors(record)).decode()
    for ref in swept.refs.values():
        assert all(len(error) <= 300 for error in ref.errors)
    assert CANARY not in repr(swept)
    assert CANARY not in repr(swept.outcome())


def test_arguments_that_a_tool_refuses_are_named_by_their_path_alone(swept):
    for node in ("odd", "refused"):
        assert swept.refs[node].status == "error"
        assert "ToolArgumentsInvalid" in swept.refs[node].errors[-1]
        assert CANARY not in repr(swept.refs[node].errors)


def test_the_journal_that_a_store_gets_holds_no_payload_either(lab, swept):
    async def main():
        async with lab.engine() as engine:
            run = await engine.start(swept.plan)
            await run
            return await engine.store.read(run.run_id)

    for event in asyncio.run(main()):
        if event.type not in (ev.NODE_OUTPUT, ev.NODE_FAILED, ev.ITEM_FAILED, ev.NODE_RETRIED):
            assert CANARY not in orjson.dumps(event.to_dict()).decode()


@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        "é",
        "\x00",
        2**70,
        float("nan"),
        b"x",
        {1: 2},
        {("a", 1): 2},
        {1},
        object(),
        pd.NaT,
    ],
    ids=[
        "surrogate",
        "letter",
        "nul",
        "large",
        "nan",
        "bytes",
        "int key",
        "tuple key",
        "set",
        "object",
        "NaT",
    ],
)
def test_no_value_of_a_tool_makes_an_event_that_is_no_json(lab, value):
    async def odd(item=None):
        print(value)
        return {"k": value, "list": [value]}

    async def fails(item=None):
        raise ValueError(value)

    lab.tool(odd)
    lab.tool(fails)
    facets = {"paths": {"f": "k"}, "counts": {"n": "list[]"}, "group_counts": {"g": "list[]"}}
    run = lab.run(
        lab.node("a", "odd", facets=facets),
        lab.node("b", "fails"),
        *lab.items(
            [value], "odd", args={"item": "{item}"}, facets=facets, store_as="k_{item}_{index}"
        ),
    )
    for event in run.events:
        assert orjson.loads(orjson.dumps(event.to_dict()))["seq"] == event.seq
    assert orjson.loads(run.manifest().model_dump_json())["plan_name"] == "lab"
