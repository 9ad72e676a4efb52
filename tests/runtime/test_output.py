"""What tools print goes to their node, what anybody else prints goes where it went before."""

import asyncio
import io
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from planbench import events as ev
from planbench.runtime import output
from planbench.runtime.output import MAX_OUTPUT, as_utf8


def printed(run, node_id):
    return run.state.nodes[node_id].output


@pytest.fixture(autouse=True)
def _streams_are_given_back():
    before = sys.stdout, sys.stderr
    yield
    assert (sys.stdout, sys.stderr) == before
    assert output._users == 0


def test_prints_go_to_their_node_and_not_to_the_cell(lab, capsys):
    async def on_loop(name="on_loop"):
        print(name, "before")
        await asyncio.sleep(0)
        print(name, "after", file=sys.stderr)

    def in_thread(name="in_thread"):
        print(name, "line")
        sys.stdout.write("and a write\n")
        sys.stdout.writelines(["two ", "pieces\n"])
        sys.stdout.flush()

    lab.tool(on_loop)
    lab.tool(in_thread)
    run = lab.run(
        lab.node("a", "on_loop"),
        lab.node("b", "in_thread"),
        lab.node("c", "on_loop", {"name": "limited"}, timeout=30),
        *lab.items(["x", "y"], "on_loop", args={"name": "{item}"}),
    )
    assert printed(run, "a") == "on_loop before\non_loop after\n"
    assert printed(run, "b") == "in_thread line\nand a write\ntwo pieces\n"
    assert printed(run, "c") == "limited before\nlimited after\n"
    assert sorted(printed(run, "fan").splitlines()) == [
        "x after",
        "x before",
        "y after",
        "y before",
    ]
    assert capsys.readouterr() == ("", "")


def test_prints_of_other_code_meanwhile_go_to_stdout(lab, capsys):
    async def main():
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def tool():
            print("of the tool")
            begun.set()
            await go_on.wait()
            print("of the tool again")

        lab.tool(tool)
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "tool")))
            await begun.wait()
            print("of another cell")
            await asyncio.to_thread(print, "of another thread")
            print("an error", file=sys.stderr)
            go_on.set()
            await run
        assert printed(run, "a") == "of the tool\nof the tool again\n"

    asyncio.run(main())
    assert capsys.readouterr() == ("of another cell\nof another thread\n", "an error\n")


def test_prints_of_two_runs_at_once_do_not_mix(lab, capsys):
    async def say(value):
        for _ in range(3):
            print(value)
            await asyncio.sleep(0)

    lab.tool(say)

    async def main():
        return await asyncio.gather(
            *[lab.finish(lab.node("a", "say", {"value": i})) for i in range(4)]
        )

    runs = asyncio.run(main())
    assert [printed(run, "a") for run in runs] == [f"{i}\n" * 3 for i in range(4)]
    assert capsys.readouterr() == ("", "")


def test_tasks_and_context_copies_of_a_tool_print_to_its_node(lab, capsys):
    async def tool():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(print, "to_thread"))
        with ThreadPoolExecutor() as pool:
            pool.submit(copy_context().run, print, "pool").result()

    lab.tool(tool)
    run = lab.run(lab.node("a", "tool"))
    assert printed(run, "a") == "to_thread\npool\n"
    assert capsys.readouterr() == ("", "")


def test_a_subscriber_that_prints_prints_to_the_cell(lab, capsys):
    async def tool():
        print("of the tool")
        await asyncio.sleep(0.01)

    lab.tool(tool)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "tool")))
            run.subscribe(lambda event: print("heard", event.type))
            await run
            return run

    run = asyncio.run(main())
    assert printed(run, "a") == "of the tool\n"
    assert "heard planbench.node.output\n" in capsys.readouterr().out


def test_output_is_bounded_for_each_node_and_says_so_once(lab, capsys):
    def chatty():
        for _ in range(1_000):
            print("x" * 99)

    lab.tool(chatty)
    run = lab.run(lab.node("a", "chatty"), lab.node("b", "chatty"))
    for node in "ab":
        text = printed(run, node)
        assert text.startswith("x" * 99 + "\n")
        assert text.count("is cut") == 1
        assert MAX_OUTPUT < len(text) <= MAX_OUTPUT + 100
        events = [
            e.data["text"]
            for e in run.events
            if e.type == ev.NODE_OUTPUT and e.data["node_id"] == node
        ]
        assert "".join(events) == text
    assert capsys.readouterr() == ("", "")


def test_one_endless_line_is_cut_as_well(lab):
    def endless():
        print("x" * 1_000_000)

    lab.tool(endless)
    text = printed(lab.run(lab.node("a", "endless")), "a")
    assert len(text) <= MAX_OUTPUT + 100
    assert "is cut" in text


def test_output_comes_before_the_end_of_its_node(lab):
    def in_thread():
        print("said")

    async def fails():
        print("said")
        raise ValueError

    lab.tool(in_thread)
    lab.tool(fails)
    run = lab.run(lab.node("a", "in_thread"), lab.node("b", "fails"))
    for node, end in (("a", ev.NODE_FINISHED), ("b", ev.NODE_FAILED)):
        types = [e.type for e in run.events if e.data.get("node_id") == node]
        assert types == [ev.NODE_STARTED, ev.NODE_OUTPUT, end]


def test_output_before_a_cancellation_is_kept_and_nothing_comes_after_the_end(lab, gate, capsys):
    begun = threading.Event()

    async def on_loop():
        print("before")
        await asyncio.sleep(3_600)

    def in_thread():
        print("thread before")
        begun.set()
        gate.wait(30)
        print("thread after")

    lab.tool(on_loop)
    lab.tool(in_thread)

    async def main():
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("a", "on_loop"), lab.node("b", "in_thread")))
            await lab.until(begun.is_set)
            run.cancel()
            await run
            assert run.events[-1].type == ev.RUN_CANCELLED
            gate.set()
            await lab.until(
                lambda: not any(t.name.startswith("planbench-") for t in threading.enumerate())
            )
            await asyncio.sleep(0.01)
            assert run.events[-1].type == ev.RUN_CANCELLED
            assert printed(run, "a") == "before\n"
            assert printed(run, "b") == "thread before\n"

    asyncio.run(main())
    assert capsys.readouterr() == ("", "")  # a thread that was given up does not print into a cell


def test_a_thread_that_outlives_its_loop_may_still_print(lab, gate, capsys):
    ended = threading.Event()
    failures = []

    def in_thread():
        lab.pass_time(60)
        gate.wait(30)
        try:
            print("late")
        except Exception as error:  # noqa: BLE001 - whatever it is, there must be none
            failures.append(error)
        ended.set()

    lab.tool(in_thread)
    lab.run(lab.node("a", "in_thread", timeout=60))
    gate.set()
    assert ended.wait(60)
    while output._users:
        ended.wait(0.001)
        threading.Event().wait(0.001)
    assert failures == []
    assert capsys.readouterr() == ("", "")


def test_text_that_is_half_of_a_pair_is_replaced_since_no_file_could_hold_it(lab):
    async def odd():
        print("half \ud800 é")

    lab.tool(odd)
    assert printed(lab.run(lab.node("a", "odd")), "a") == "half ? é\n"
    assert as_utf8("é 😀") == "é 😀"


def test_what_is_no_text_is_refused_as_by_any_stream(lab):
    async def odd():
        sys.stdout.write(b"bytes")

    lab.tool(odd)
    run = lab.run(lab.node("a", "odd"), lab.node("b"))
    assert run.refs["a"].errors == ["TypeError: write() argument must be str, not bytes"]
    assert run.state.nodes["b"].status == "ok"


def test_the_stream_that_tools_see_answers_like_the_real_one(lab, capsys):
    real = sys.stdout

    async def looks(value=None):
        stream = sys.stdout
        assert isinstance(stream, io.TextIOBase)
        return {
            "encoding": stream.encoding == real.encoding,
            "errors": stream.errors == real.errors,
            "newlines": stream.newlines == real.newlines,
            "buffer": stream.buffer is real.buffer,
            "writable": stream.writable(),
            "tty": stream.isatty(),
            "written": stream.write("é"),
        }

    lab.tool(looks)
    lab.run(lab.node("a", "looks"))
    seen = lab.memory["a"]
    assert seen.pop("tty") is False
    assert seen.pop("written") == 1
    assert all(seen.values()), seen


def test_a_tool_that_closes_stdout_closes_it_for_nobody(lab, capsys):
    async def closes():
        sys.stdout.close()
        print("still")

    lab.tool(closes)
    run = lab.run(lab.node("a", "closes"))
    assert printed(run, "a") == "still\n"
    print("the cell too")
    assert capsys.readouterr().out == "the cell too\n"


def test_a_stream_that_was_replaced_meanwhile_is_left_alone(lab):
    mine = io.StringIO()
    before = sys.stdout

    async def replaces():
        sys.stdout = mine
        print("into mine")

    lab.tool(replaces)
    try:
        lab.run(lab.node("a", "replaces"))
        assert sys.stdout is mine
    finally:
        sys.stdout = before
    assert mine.getvalue() == "into mine\n"


def test_log_lines_of_tools_go_to_their_node_where_the_handler_asks_for_the_stream(lab, capsys):
    class Handler(logging.Handler):
        def emit(self, record):
            print(record.getMessage(), file=sys.stderr)

    logger = logging.getLogger("tests.of.output")
    logger.propagate = False
    handler = Handler()
    logger.addHandler(handler)

    async def logs():
        logger.warning("from the tool")

    lab.tool(logs)
    try:
        run = lab.run(lab.node("a", "logs"))
    finally:
        logger.removeHandler(handler)
    assert printed(run, "a") == "from the tool\n"
    assert capsys.readouterr() == ("", "")


def test_a_finalizer_that_prints_while_something_is_printed_does_not_lock_up(lab):
    class Text(str):
        __slots__ = ()

        def __len__(self):
            print("while it is taken in")
            return super().__len__()

    async def odd():
        sys.stdout.write(Text("a line\n"))

    lab.tool(odd)
    output = printed(lab.run(lab.node("a", "odd")), "a")
    assert "a line" in output
    assert "while it is taken in" in output


def test_a_run_inside_a_tool_prints_to_its_own_nodes(lab, capsys):
    async def inner():
        print("inner")

    async def outer():
        print("outer before")
        async with lab.engine() as engine:
            run = await engine.start(lab.plan(lab.node("i", "inner")))
            await run
        print("outer after")
        return run.state.nodes["i"].output

    lab.tool(inner)
    lab.tool(outer)
    run = lab.run(lab.node("a", "outer"))
    assert lab.memory["a"] == "inner\n"
    assert printed(run, "a") == "outer before\nouter after\n"
    assert capsys.readouterr() == ("", "")
