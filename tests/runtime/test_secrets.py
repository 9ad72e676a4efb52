"""Secrets reach the tool that the host allows them for, at the call, and no record of it."""

import asyncio
import base64
import contextvars
import json
import logging
import sys
import threading
from typing import Annotated
from urllib.parse import quote

import orjson
import pytest
from pydantic import AfterValidator

from planbench import events as ev
from planbench.checkpoints import MemoryStore
from planbench.cli.record import session_page
from planbench.errors import PlaceholderError, PlanInvalid, RunRefused
from planbench.events import Event
from planbench.files import load_plan
from planbench.runtime.masking import MAPS, TEXTS
from planbench.runtime.secrets import Secrets, open_secrets
from planbench.workbench import Workbench, run_plan

TOKEN = "tok-3n/+\u00fc \"x' 5e4d"
OTHER = "other-8f21c7"
MARK = "***TOKEN***"
WRITTEN = (
    TOKEN,
    repr(TOKEN)[1:-1],
    json.dumps(TOKEN)[1:-1],
    quote(TOKEN, safe=""),
    base64.b64encode(TOKEN.encode()).decode(),
)
BITS = (TOKEN[:4], TOKEN[-4:], *(form[:8] for form in WRITTEN), *(form[-8:] for form in WRITTEN))


def clean(text):
    """Whether a text holds no part of the secret by which it could be told."""
    return not any(bit in text for bit in BITS)


def record(run):
    """All that is kept of a run: events, refs, manifest, as JSON."""
    return orjson.dumps(
        [
            [event.to_dict() for event in run.events],
            {name: ref.model_dump(mode="json") for name, ref in run.refs.items()},
            run.manifest().model_dump(mode="json"),
        ]
    ).decode()


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("OTHER", OTHER)


@pytest.fixture
def seen(lab):
    """What the tool ``use`` was given; it is the one that may have secrets."""
    given = []

    async def use(value=None, more=None):
        given.append(value)
        return "done"

    lab.tool(use)
    return given


ALLOWED = {"TOKEN": ["use*"], "OTHER": ["use*"]}


def run(lab, *nodes, env=ALLOWED, engine=None, params=None, **metadata):
    async def main():
        lab.loop = asyncio.get_running_loop()
        async with engine or lab.engine(env=env) as live:
            started = await live.start(lab.plan(*nodes, **metadata), params)
            await started
            return started

    return asyncio.run(main())


# Handed out


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("{env.TOKEN}", TOKEN),
        ("Bearer {env.TOKEN}", f"Bearer {TOKEN}"),
        ("{env.TOKEN}:{env.OTHER}", f"{TOKEN}:{OTHER}"),
        ({"headers": [{"auth": "{env.TOKEN}"}]}, {"headers": [{"auth": TOKEN}]}),
        ("{{env.TOKEN}}", "{env.TOKEN}"),
    ],
)
def test_an_allowed_tool_gets_the_value_at_the_call(lab, seen, written, given):
    done = run(lab, lab.node("a", "use", {"value": written}))
    assert done.status == "completed"
    assert seen == [given]
    assert clean(record(done))


def test_every_item_of_a_fan_out_gets_the_value(lab, seen):
    done = run(lab, *lab.items([1, 2], "use", args={"value": "{item} {env.TOKEN} {index}"}))
    assert sorted(seen) == [f"1 {TOKEN} 0", f"2 {TOKEN} 1"]
    assert clean(record(done))


def test_a_value_that_looks_like_a_placeholder_is_a_value(lab, seen, monkeypatch):
    monkeypatch.setenv("TOKEN", "{env.OTHER} {artifacts.a}")
    run(lab, lab.node("a", "use", {"value": "{env.TOKEN}"}))
    assert seen == ["{env.OTHER} {artifacts.a}"]


@pytest.mark.parametrize("written", ["{params.p}", "x {params.p}"])
def test_a_parameter_never_becomes_a_secret(lab, seen, written):
    run(lab, lab.node("a", "use", {"value": written}), params={"p": "{env.TOKEN}"})
    assert seen[0].endswith("{env.TOKEN}")


def test_a_result_never_becomes_a_secret(lab, seen):
    lab.tool(lambda: "{env.TOKEN}", name="source")
    read = lab.node("b", "use", {"value": "{artifacts.a}", "more": "{env.TOKEN}"}, "a")
    run(lab, lab.node("a", "source"), read)
    assert seen == ["{env.TOKEN}"]


@pytest.mark.parametrize("env", [None, {}, {"TOKEN": []}, {"TOKEN": ["use"]}, {"OTHER": ["give"]}])
def test_any_other_tool_makes_the_plan_invalid_and_nothing_is_called(lab, env):
    with pytest.raises(PlanInvalid) as caught:
        run(lab, lab.node("b"), lab.node("a", args={"value": "{env.TOKEN}"}), env=env)
    assert [issue.code for issue in caught.value.issues] == ["env_not_allowed"]
    assert caught.value.issues[0].node_id == "a"
    assert lab.calls == []


def test_a_plan_is_checked_again_when_the_host_allows_less(lab, seen):
    plan = lab.plan(lab.node("a", "use", {"value": "{env.TOKEN}"}))
    env = {"TOKEN": ["use"]}

    async def main():
        async with lab.engine(env=env) as engine:
            await (await engine.start(plan))
            env["TOKEN"] = ["other"]  # in place: nobody is told
            with pytest.raises(PlanInvalid):
                await engine.start(plan)
            engine.env = {"TOKEN": "us?"}
            await (await engine.start(plan))
            engine.env = None
            with pytest.raises(PlanInvalid):
                await engine.start(plan)
        async with lab.engine() as engine:
            with pytest.raises(PlanInvalid):
                await engine.start(plan)

    asyncio.run(main())
    assert seen == [TOKEN, TOKEN]


def test_run_plan_and_the_workbench_take_what_is_allowed(lab, seen, tmp_path):
    plan = lab.plan(lab.node("a", "use", {"value": "{env.TOKEN}"}))

    async def main():
        manifest = await run_plan(plan, registry=lab.registry, env={"TOKEN": ["use"]})
        bench = Workbench(lab.registry, plans_dir=tmp_path, env={"TOKEN": ["use"]})
        await (await bench.start(plan))
        await bench.close()
        return manifest

    assert asyncio.run(main()).status == "completed"
    assert seen == [TOKEN, TOKEN]


def test_a_direct_call_of_a_tool_knows_no_placeholders(lab, seen):
    asyncio.run(lab.registry.execute_tool("use", {"value": "{env.TOKEN}"}))
    assert seen == ["{env.TOKEN}"]


# The variable


@pytest.mark.parametrize(("value", "said"), [(None, "not set"), ("", "empty")])
def test_without_the_variable_the_run_is_refused_before_anything_is_called(
    lab, seen, monkeypatch, value, said
):
    monkeypatch.delenv("TOKEN")
    if value is not None:
        monkeypatch.setenv("TOKEN", value)
    store = MemoryStore()
    never = lab.node("b", "use", {"value": "{env.TOKEN} {env.OTHER}"}, "a", when="false")
    with pytest.raises(RunRefused) as caught:
        run(lab, lab.node("a"), never, engine=lab.engine(env=ALLOWED, store=store))
    assert (caught.value.code, caught.value.node_id) == ("env_missing", "b")
    assert f"node 'b' reads {{env.TOKEN}}, and the variable TOKEN is {said}" in str(caught.value)
    assert OTHER not in str(caught.value)
    assert lab.calls == seen == []
    assert asyncio.run(store.runs()) == []


def test_all_missing_variables_are_named_at_once(monkeypatch):
    monkeypatch.delenv("TOKEN")
    monkeypatch.delenv("OTHER")
    with pytest.raises(RunRefused, match=r"'a' reads \{env.TOKEN\}.*'b' reads \{env.OTHER\}"):
        open_secrets({"TOKEN": "a", "OTHER": "b"})


def test_the_next_run_of_a_compiled_plan_reads_the_variable_anew(lab, monkeypatch):
    async def use(value):
        raise ValueError(value)

    lab.tool(use)
    plan = lab.plan(lab.node("a", "use", {"value": "{env.TOKEN}"}))

    async def main():
        async with lab.engine(env=ALLOWED) as engine:
            first = await engine.start(plan)
            await first
            monkeypatch.setenv("TOKEN", "another-value")
            second = await engine.start(plan)
            await second
            return first, second

    first, second = asyncio.run(main())
    assert first.refs["a"].errors == second.refs["a"].errors == [f"ValueError: {MARK}"]
    assert clean(record(first))
    assert "another-value" not in record(second)


def test_a_variable_that_changes_during_the_run_is_read_at_the_call_and_both_are_masked(
    lab, monkeypatch
):
    async def use_and_change(value):
        monkeypatch.setenv("TOKEN", "fresh-token-2")
        return value

    async def use(value):
        print(TOKEN, value)
        raise ValueError(f"{value} was {TOKEN}")

    lab.tool(use_and_change)
    lab.tool(use)
    done = run(
        lab,
        lab.node("a", "use_and_change", {"value": "{env.TOKEN}"}),
        lab.node("b", "use", {"value": "{env.TOKEN}"}, "a"),
    )
    assert lab.memory["a"] == TOKEN
    assert done.refs["b"].errors == [f"ValueError: {MARK} was {MARK}"]
    assert done.state.nodes["b"].output == f"{MARK} {MARK}\n"
    assert clean(record(done))
    assert "fresh-token" not in record(done)


def test_a_variable_that_goes_during_the_run_fails_the_node_that_reads_it(lab, seen, monkeypatch):
    lab.tool(lambda: monkeypatch.delenv("TOKEN"), name="go")
    done = run(lab, lab.node("a", "go"), lab.node("b", "use", {"value": "{env.TOKEN}"}, "a"))
    assert done.refs["b"].status == "error"
    assert "the variable TOKEN is not set any more" in done.refs["b"].errors[0]
    assert seen == []


def test_a_name_that_the_plan_did_not_ask_for_is_not_given():
    with pytest.raises(PlaceholderError, match="OTHER"):
        Secrets(("TOKEN",)).get("OTHER")


# Never written


def refuses(value: str) -> str:
    raise ValueError(f"{value} is no number")


@pytest.fixture
def leaky(lab):  # noqa: C901 - a tool for each door
    """Tools that let a secret out by every door there is."""

    async def use_ok(token):
        print("connecting with", token)
        return {"token": token, "n": 3, token: [token], "list": [{"k": token}, {"k": "b"}]}

    async def use_error(token):
        raise ValueError(f"bad token {token}")

    async def use_long_error(token):
        raise ValueError(f"{'x' * 275}{token}")

    def use_thread(token):
        sys.stderr.write(f"{json.dumps({'a': token})}\n")
        raise KeyError(token)

    async def use_number(token: int):
        return token

    async def use_refused(token: Annotated[str, AfterValidator(refuses)]):
        return token

    async def use_item(item, token):
        if item == 1:
            raise RuntimeError(f"item {item}: {quote(token, safe='')}")
        print(item, token)
        return {"name": token, "rows": [token, token]}

    async def use_slow(token):
        print(token, flush=True)
        await asyncio.sleep(60)

    for tool in (
        use_ok, use_error, use_long_error, use_thread, use_number, use_refused, use_item, use_slow
    ):  # fmt: skip
        lab.tool(tool)
    lab.tool(lambda: [0, 1, 2], name="source")
    secret = {"token": "Basic {env.TOKEN}"}
    facets = {
        "paths": {"t": "token", "first": "list[0].k"},
        "counts": {"n": "list[]"},
        "group_counts": {"by": "list[].k"},
    }
    item_facets = {"paths": {"t": "name"}, "group_counts": {"by": "rows[]"}}
    fan = {"source": "{artifacts.src}"}
    return lab.plan(
        lab.node("src", "source"),
        lab.node("ok", "use_ok", {"token": "{env.TOKEN}"}, facets=facets),
        lab.node("error", "use_error", secret),
        lab.node("long", "use_long_error", secret),
        lab.node("thread", "use_thread", secret, retry={"max_attempts": 3}),
        lab.node("number", "use_number", {"token": "{env.TOKEN}"}),
        lab.node("refused", "use_refused", secret),
        lab.node(
            "fan", "use_item", {"item": "{item}", **secret}, "src", for_each=fan, facets=item_facets
        ),
        lab.node("slow", "use_slow", secret, timeout=0.05),
        lab.node("guard", after="ok", when=f"ctx.artifacts.ok.t == {json.dumps(MARK)}"),
        lab.node("no", after="ok", when="ctx.artifacts.ok.t > 3"),
        lab.node("ref", args={"value": "{nodes.ok.output}"}, after="ok"),
    )


@pytest.fixture
def leaked(lab, leaky, tmp_path, caplog, capfd):
    """A finished run of ``leaky`` on a workbench, with its session."""
    caplog.set_level(logging.DEBUG)

    async def main():
        bench = Workbench(
            lab.registry, lab.memory, plans_dir=tmp_path, env={"TOKEN": ["use_*"]}
        )  # fmt: skip
        session = bench.session(leaky)
        done = await session.start()
        await done
        return bench, session, done

    bench, session, done = asyncio.run(main())
    yield bench, session, done
    assert clean(caplog.text)
    assert all(clean(text) for text in capfd.readouterr())


def test_the_stored_value_is_what_the_tool_gave(lab, leaked):
    assert lab.memory["ok"]["token"] == TOKEN
    assert leaked[2].value("fan")[0]["name"] == f"Basic {TOKEN}"


def test_no_record_of_a_run_holds_the_secret(lab, leaked):
    bench, _, done = leaked
    assert clean(record(done))
    for text in (done.failure_text(), repr(done), str(done.outcome()), repr(done.events)):
        assert clean(text)
    assert clean(done.items("fan").to_csv())
    journal = asyncio.run(bench.engine.store.read(done.run_id))
    assert clean(repr(journal))
    assert done.plan.to_yaml().count("{env.TOKEN}") == 8


def test_what_is_written_instead_names_the_variable(leaked):
    refs, states = leaked[2].refs, leaked[2].state.nodes
    assert refs["error"].errors == [f"ValueError: bad token Basic {MARK}"]
    assert refs["long"].errors[0].endswith("xBasic ***T...")
    assert refs["thread"].errors == [f"KeyError: 'Basic {MARK}'"]
    assert states["thread"].output == f'{{"a": "Basic {MARK}"}}\n' * 3
    assert refs["fan"].errors == [f"[1] RuntimeError: item 1: Basic%20{MARK}"]
    assert states["ok"].output == f"connecting with {MARK}\n"
    assert states["slow"].output == f"Basic {MARK}\n"
    assert refs["ok"].facets == {"t": MARK, "first": MARK, "n": 2, "by": {MARK: 1, "b": 1}}
    assert refs["fan"].facets == {"t": [f"Basic {MARK}"], "by": {f"Basic {MARK}": 4}}
    assert refs["guard"].status == "ok"
    assert refs["no"].status == "skipped"
    retried = [e.data["error"] for e in leaked[2].events if e.type == ev.NODE_RETRIED]
    assert retried == [f"KeyError: 'Basic {MARK}'"] * 2


def test_a_secret_that_is_longer_than_what_is_kept_of_a_text_leaves_no_beginning(lab, monkeypatch):
    value = "".join(chr(97 + (7 * i + i // 26) % 26) for i in range(900))
    monkeypatch.setenv("TOKEN", value)

    async def use(token):
        print("got", token)
        return {"token": token, "in": f"a {token} b"}

    async def use_bad(token):
        raise ValueError(f"bad {token} end")

    lab.tool(use)
    lab.tool(use_bad)
    facets = {"paths": {"t": "token", "i": "in"}, "group_counts": {"g": "[]"}}
    secret = {"token": "{env.TOKEN}"}
    done = run(lab, lab.node("a", "use", secret, facets=facets), lab.node("b", "use_bad", secret))
    assert done.refs["a"].facets == {"t": f"{MARK}…", "i": f"a {MARK}…"}
    assert done.refs["b"].errors == [f"ValueError: bad {MARK} end"]
    assert value[:4] not in record(done)


def test_arguments_that_do_not_fit_are_named_without_the_secret(leaked):
    for node, said in (("number", "args.token should be a valid integer"), ("refused", "refused")):
        assert said in leaked[2].refs[node].errors[0]


def test_no_digest_is_made_of_a_secret_and_no_call_with_one_is_reused(lab, seen):
    nodes = lab.items(
        [1, 2], "use", args={"value": "{item} {env.TOKEN}"}, each={"skip_existing": True}
    )
    plain = lab.node("a", "use", {"value": "{env.TOKEN}"})
    for _ in range(2):
        done = run(lab, *nodes, plain)
        digests = [
            event.data["digest"]
            for event in done.events
            if "digest" in event.data and event.data["node_id"] in ("a", "fan")
        ]
        assert digests == [None] * 3
    assert len(seen) == 6
    assert done.manifest().items["fan"].reused == 0
    assert all(lab.memory.peek(key).digest is None for key in ("fan.0", "fan.1"))


def test_a_key_that_would_hold_the_secret_fails_its_item(lab):
    async def use(item, token):
        return item

    lab.tool(use)
    done = run(
        lab,
        *lab.items(
            ["fine", OTHER],
            "use",
            args={"item": "{item}", "token": "{env.OTHER}"},
            store_as="by_{item}",
        ),
    )
    assert done.refs["fan"].status == "partial"
    assert done.refs["fan"].errors == [
        "[1] ValueError: store_as gives a key that holds a secret, and keys are recorded"
    ]
    assert list(done.items("fan")["key"]) == ["by_fine", "by_***OTHER***"]
    assert OTHER not in record(done)
    assert lab.memory.keys("by_*") == ["by_fine"]


def test_a_secret_that_is_printed_in_pieces_is_masked_and_nothing_of_it_comes_early(lab):
    told = []

    async def use(token):
        for letter in f"a {token} b {token[:5]}":
            sys.stdout.write(letter)
            await asyncio.sleep(0)

    async def talk():
        for _ in range(20):
            print("x")
            await asyncio.sleep(0)

    lab.tool(use)
    lab.tool(talk)

    async def main():
        async with lab.engine(env=ALLOWED) as engine:
            live = await engine.start(
                lab.plan(lab.node("a", "use", {"token": "{env.OTHER}"}), lab.node("b", "talk"))
            )
            live.subscribe(lambda event: told.append(event.data.get("text", "")))
            await live
            return live

    done = asyncio.run(main())
    assert done.state.nodes["a"].output == f"a ***OTHER*** b {OTHER[:5]}"
    assert done.state.nodes["b"].output == "x\n" * 20
    assert not any(OTHER[:5] in text for text in told[:-3])


def test_a_print_that_is_cut_inside_the_secret_shows_no_part_of_it(lab):
    def use(token):
        sys.stdout.write("x" * (20_000 - 5))
        sys.stdout.write(token)
        sys.stdout.write("more")

    lab.tool(use)
    done = run(lab, lab.node("a", "use", {"token": "{env.OTHER}"}))
    assert done.state.nodes["a"].output == (
        "x" * 19_995 + "\n... output over 20000 characters is cut\n"
    )


def test_a_thread_that_outlives_its_run_prints_nothing_that_is_kept(lab, gate):
    def use(token):
        print("begin", token[:4])
        lab.pass_time(60)
        gate.wait(30)
        print(token)
        ended.set()

    ended = threading.Event()
    lab.tool(use)
    done = run(lab, lab.node("a", "use", {"token": "{env.OTHER}"}, timeout=60))
    gate.set()
    assert ended.wait(60)
    assert "still running in a thread" in done.refs["a"].errors[0]
    assert OTHER not in record(done)


def test_a_cancelled_run_keeps_no_secret(lab):
    async def use(token):
        print("began", token)
        try:
            await asyncio.sleep(60)
        finally:
            print(token)

    lab.tool(use)

    async def main():
        async with lab.engine(env=ALLOWED) as engine:
            live = await engine.start(lab.plan(lab.node("a", "use", {"token": "{env.TOKEN}"})))
            await lab.until(lambda: live.state.nodes["a"].output)
            live.cancel()
            await live
            return live

    done = asyncio.run(main())
    assert done.status == "cancelled"
    assert done.state.nodes["a"].output == f"began {MARK}\n{MARK}\n"
    assert clean(record(done))


def test_a_run_that_is_resumed_gets_the_secret_anew_and_its_journal_holds_none(
    lab, tmp_path, monkeypatch
):
    given = []

    async def use(token):
        given.append(token)
        print(token)
        if len(given) == 1:
            raise ValueError(f"bad token {token}")
        return "done"

    lab.tool(use)
    plan = lab.plan(lab.node("a", "use", {"token": "{env.TOKEN}"}))

    async def main():
        async with lab.engine(env=ALLOWED, store=f"sqlite:///{tmp_path / 'runs.db'}") as engine:
            first = await engine.start(plan)
            await first
            monkeypatch.delenv("TOKEN")
            with pytest.raises(RunRefused) as caught:
                await engine.resume(first.run_id)
            monkeypatch.setenv("TOKEN", OTHER)
            again = await engine.resume(first.run_id)
            await again
            return first, caught.value, again, await engine.store.read(first.run_id)

    first, refusal, again, journal = asyncio.run(main())
    assert (first.status, refusal.code, again.status) == ("failed", "env_missing", "completed")
    assert given == [TOKEN, OTHER]
    for text in (record(first), record(again), repr(journal)):
        assert clean(text)
        assert OTHER not in text
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"bad token ***TOKEN***" in files
    assert not any(bit.encode() in files for bit in (*BITS, OTHER))


def test_two_runs_at_once_mask_each_its_own(lab):
    async def use(mine, other):
        await asyncio.sleep(0)
        print(mine, other)
        return mine

    lab.tool(use)

    async def main():
        async with lab.engine(env=ALLOWED) as engine:
            plans = [
                lab.plan(
                    lab.node("a", "use", {"mine": f"{{env.{name}}}", "other": other}, store_as=name)
                )
                for name, other in (("TOKEN", OTHER), ("OTHER", TOKEN))
            ]
            runs = [await engine.start(plan) for plan in plans]
            for one in runs:
                await one
            return runs

    first, second = asyncio.run(main())
    assert first.state.nodes["a"].output == f"{MARK} {OTHER}\n"
    assert second.state.nodes["a"].output == f"***OTHER*** {TOKEN}\n"
    assert (lab.memory["TOKEN"], lab.memory["OTHER"]) == (TOKEN, OTHER)


def test_a_secret_is_in_no_context_variable_and_those_of_the_caller_arrive(lab):
    mine = contextvars.ContextVar("mine", default="unset")
    found = {}

    async def use(token):
        found["use"] = mine.get()
        mine.set(token)

    def look():
        found["look"] = mine.get()
        found["all"] = repr(list(contextvars.copy_context().items()))

    lab.tool(use)
    lab.tool(look)
    mine.set("the caller's")
    run(
        lab, lab.node("a", "use", {"token": "{env.TOKEN}"}), lab.node("b", "look", after="a")
    )  # fmt: skip
    assert found["use"] == found["look"] == "the caller's"
    assert clean(found["all"])


def test_a_run_without_secrets_has_nothing_that_masks(lab):
    done = run(lab, lab.node("a", args={"value": "{{env.TOKEN}} {item}"}))
    assert done.secrets is None
    assert lab.calls == ["{env.TOKEN} {item}"]


def test_every_text_of_an_event_is_masked_or_one_of_the_plans_own(leaked):
    """A new field of an event must be put on one side, in ``masking`` or here."""
    own = {"node_id", "status", "entry_type", "digest", "key", "artifact_id", "artifact"}
    for event in leaked[2].events[1:]:  # the first is there before anything is called
        numbers = (name for name, value in event.data.items() if isinstance(value, int | float))
        assert event.data.keys() - set(numbers) <= {*own, *TEXTS, *MAPS}, event


# Never shown


def test_a_session_shows_tables_and_problems_without_the_secret(leaked):
    _, session, done = leaked
    details = {node.id: session.details(node.id) for node in done.plan.nodes}
    assert clean(json.dumps(details, ensure_ascii=False))
    assert MARK in json.dumps(details["ok"]["table"])
    assert MARK in json.dumps(details["fan"]["table"])
    assert "{env.TOKEN}" in details["ok"]["args_text"]
    assert clean(repr(session.view()))
    for thing in (session, session.workbench.engine, session.workbench.memory, done.secrets):
        assert clean(repr(thing))
    assert clean(session.workbench.memory.catalog().to_csv())


def test_a_page_a_picture_and_a_saved_cell_show_no_secret(leaked):
    from planbench.notebook.bundle import static_bundle
    from planbench.render.page import PageTable

    _, session, done = leaked
    page = session_page(session, [PageTable("all", [TOKEN], [[TOKEN, 1]])])
    assert clean(page)
    assert MARK in page
    for made in (static_bundle(done), static_bundle(session, previews=True)):
        assert set(made) == {"text/html", "text/plain", "image/svg+xml"}
        assert all(clean(text) for text in made.values())


def test_the_panel_is_told_no_secret(leaked):
    from planbench.notebook.panel import PlanPanel

    _, session, done = leaked
    panel = PlanPanel(session)
    sent = []
    panel.send = sent.append
    for number in range(len(done.plan.nodes)):
        panel._receive(panel, {"type": "open", "node": number, "view": "v"}, [])
    session._tell("finished")
    assert MARK in json.dumps(sent)
    assert clean(json.dumps([sent, panel.get_state()], ensure_ascii=False, default=str))
    panel.close()


def test_the_command_line_writes_no_secret(tmp_path, monkeypatch, capfd):
    from planbench.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_secret_tools.py").write_text(
        "def use(token: str) -> dict:\n"
        "    print(token)\n"
        "    return {'t': token}\n"
        "def fail(token: str):\n"
        "    raise ValueError(f'bad token {token}')\n"
    )
    (tmp_path / "p.yaml").write_text(
        "name: p\nobjective: o\nnodes:\n"
        "  - {id: a, tool: use, args: {token: '{env.TOKEN}'}, facets: {paths: {t: t}}}\n"
        "  - {id: b, tool: fail, args: {token: '{env.TOKEN}'}}\n"
    )
    words = ["run", "p.yaml", "--tools", "own_secret_tools", "--json", "m.json", "--html", "p.html"]
    assert main(words) == 2
    assert "env_not_allowed" in capfd.readouterr().err
    assert main([*words, "--env", "TOKEN=use", "--env", "TOKEN=fa*"]) == 1
    out, err = capfd.readouterr()
    assert f"bad token {MARK}" in out + err
    kept = [(tmp_path / name).read_text("utf-8") for name in ("m.json", "p.html")]
    assert all(MARK in text for text in kept)
    assert all(clean(text) for text in (out, err, *kept))
    assert main([*words, "--env", TOKEN]) == 2
    assert clean(capfd.readouterr().err)
    monkeypatch.delenv("TOKEN")
    assert main([*words, "--env", "TOKEN=*"]) == 2
    assert "env_missing" in (said := capfd.readouterr().err) or "TOKEN is not set" in said
    sys.modules.pop("own_secret_tools")


def test_a_journal_that_is_read_back_gives_the_same_state(leaked):
    from planbench.runtime import replay

    done = leaked[2]
    again = replay([Event(*event) for event in done.events])
    assert {name: node.ref() for name, node in again.nodes.items()} == {
        name: node.ref() for name, node in done.state.nodes.items()
    }


def test_a_plan_with_secrets_is_read_and_written_as_it_is(lab, leaky):
    assert load_plan(leaky.to_yaml()).to_yaml() == leaky.to_yaml()
    assert clean(leaky.to_yaml())
