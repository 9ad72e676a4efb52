"""Journals that were forged or damaged: each is refused with one error that says what is wrong."""

from __future__ import annotations

import hashlib
import json
import pickle
import time
import tracemalloc
import zipfile

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planbench import open_run
from planbench.errors import ArtifactDamaged, ArtifactTooLarge, PlanbenchError, RecordDamaged

MOST_SECONDS = 20
MOST_BYTES = 400_000_000


class File:
    """The members of a run file, to be changed and written again."""

    def __init__(self, path):
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}
        self.events = [json.loads(line) for line in self.members["journal.jsonl"].splitlines()]

    def find(self, kind, **wanted):
        return next(
            event["data"]
            for event in self.events
            if event["type"] == f"planbench.{kind}"
            and all(event["data"].get(name) == value for name, value in wanted.items())
        )

    def json(self, name, change):
        record = json.loads(self.members[name])
        self.members[name] = json.dumps(change(record)).encode()

    def write(self, journal=None):
        if journal is None:
            journal = b"\n".join(json.dumps(event).encode() for event in self.events)
        self.members["journal.jsonl"] = journal
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in self.members.items():
                packed = len(data) < 900_000
                kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
                archive.writestr(name, data, kind)

    def refused(self, said, journal=None):
        self.write(journal)
        tracemalloc.start()
        began = time.monotonic()
        try:
            with pytest.raises(RecordDamaged) as caught:
                open_run(self.path)
            assert time.monotonic() - began < MOST_SECONDS
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        finally:
            tracemalloc.stop()
        message = caught.value.message
        assert said in message, message
        assert self.path.name in message
        assert len(message.splitlines()) == 1
        assert len(message) < 500


@pytest.fixture
def file(lab, tmp_path):
    """A run with a plain node, a fan-out that lost an item, and a red node."""
    run = lab.run(
        *lab.items(["a", "b"]),
        lab.node("sum", "boom", {"value": "{artifacts.fan}"}, "fan"),
    )
    return File(run.save(tmp_path / "run.planrun"))


def test_what_was_not_changed_is_read(file):
    file.write()
    assert open_run(file.path).warnings == []


# -- lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "line 1"),
        (b"[]", "line 1"),
        (b"1", "line 1"),
        (b'"text"', "line 1"),
        (b"null", "line 1"),
        (b"\xff\xfe", "line 1"),
        (b"[" * 100_000, "line 1"),
        (b" " + b"[" * 100_000, "line 1"),
        (b'{"seq":' * 500, "line 1"),
        (b'{"seq":1}', "is missing"),
        (b"1" * 1_000_000, "line 1"),
        (b" " + b"1" * 1_000_000, "line 1"),
    ],
)
def test_a_line_that_is_no_event_is_refused(file, line, said):
    file.refused(said, line)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 0), ("seq", -1), ("seq", "1"), ("seq", 1.0), ("seq", True), ("seq", None),
        ("seq", 2**53), ("seq", 10**400),
        ("run_id", "other"), ("run_id", 1), ("run_id", None),
        ("at", "yesterday"), ("at", 1), ("at", "2026-01-01T00:00:00"), ("at", "0001-01-01T00:00:00+00:00"),
        ("at", "9999-12-31T23:59:59+00:00"),
        ("timestamp", 0), ("timestamp", "now"), ("timestamp", 1e308), ("timestamp", float("nan")),
        ("type", "planbench.run.exploded"), ("type", "x" * 100_000), ("type", 1), ("type", None),
        ("data", []), ("data", None), ("data", "x"),
    ],
)  # fmt: skip
def test_an_event_with_a_field_that_it_cannot_have_is_refused(file, field, value):
    file.events[2][field] = value
    # as text, so that a number that no float holds stays what it is
    lines = [(" " + json.dumps(event)).encode() for event in file.events]
    file.refused("journal.jsonl: line 3", b"\n".join(lines))


def test_events_out_of_order_or_twice_are_refused(file):
    file.events[3]["seq"] = file.events[2]["seq"]
    file.refused("stands after event")


def test_a_journal_that_does_not_begin_with_the_start_is_refused(file):
    file.events = file.events[1:]
    file.refused("does not begin with the start of a run")


def test_an_empty_journal_is_refused(file):
    file.events = []
    file.refused("does not begin with the start of a run", b"")


def test_nesting_within_the_parsers_limit_is_refused_too(file):
    deep = json.loads("[" * 300 + "]" * 300)
    file.events[1]["data"]["facets"] = {"deep": deep}
    file.refused("nested too deep")


def test_millions_of_small_values_are_refused_before_they_are_made(file):
    start = orjson.dumps(file.events[0])
    line = (
        b'{"seq":2,"run_id":"x","at":"x","type":"x","data":{"a":[' + b"[]," * 9_000_000 + b"[]]}}"
    )
    file.refused("more than 8,000,000 values", start + b"\n" + line)


# -- the plan ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.update(nodes=[]),
        lambda plan: plan.update(nodes="x"),
        lambda plan: plan.update(nodes=[[]]),
        lambda plan: plan.update(evil=1),
        lambda plan: plan.update(name=1),
        lambda plan: plan["nodes"].append(plan["nodes"][0]),
        lambda plan: plan["nodes"][0].update(id=["x"]),
        lambda plan: plan["nodes"][0].update(id="../x"),
        lambda plan: plan["nodes"][1]["for_each"].update(max_items=10**9),
        lambda plan: plan["nodes"][2].update(depends_on=["sum"]),
        lambda plan: plan["nodes"][2].update(depends_on=["nobody"]),
    ],
)
def test_a_plan_that_is_none_is_refused(file, change):
    change(file.events[0]["data"]["plan"])
    file.refused("journal.jsonl: ")


def test_a_start_without_a_plan_is_refused(file):
    del file.events[0]["data"]["plan"]
    file.refused("run.started without 'plan'")


@pytest.mark.parametrize("field", ["tools", "recovery", "reruns", "memory_id", "root_run_id"])
@pytest.mark.parametrize("value", [1, [1], {"x": 1}, "\0"])
def test_a_start_with_facts_that_it_cannot_have_is_refused(file, field, value):
    file.events[0]["data"][field] = value
    file.refused(repr(field))


# -- nodes and results ---------------------------------------------------------------------


def test_a_node_that_is_not_in_the_plan_is_refused(file):
    file.find("node.finished", node_id="src")["node_id"] = "elsewhere"
    file.refused("the plan has no node 'elsewhere'")


@pytest.mark.parametrize("kind", ["node.retried", "node.output", "node.cached"])
def test_a_node_that_is_not_in_the_plan_is_refused_in_any_event(file, kind):
    data = {"node_id": "elsewhere", "text": "x", "attempt": 1}
    file.events[2].update(type=f"planbench.{kind}", data=data)
    file.refused("the plan has no node 'elsewhere'")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("node.finished", "status", "error"),
        ("node.finished", "status", ["ok"]),
        ("node.finished", "status", "completed"),
        ("node.finished", "bytes", "many"),
        ("node.finished", "bytes", -1),
        ("node.finished", "bytes", 1e300),
        ("node.finished", "bytes", True),
        ("node.finished", "version", 0.5),
        ("node.finished", "key", ""),
        ("node.finished", "key", "x" * 501),
        ("node.finished", "key", 7),
        ("node.finished", "facets", [1]),
        ("node.finished", "entry_type", {}),
        ("node.finished", "artifact_id", "../x-1"),
        ("node.finished", "artifact_id", "wm-" + "9" * 40),
        ("node.finished", "artifact", "x"),
        ("node.progress", "total", 100_001),
        ("node.progress", "total", -1),
        ("node.progress", "total", "2"),
        ("item.finished", "index", -1),
        ("item.finished", "index", 10**6),
        ("item.finished", "index", "0"),
        ("item.finished", "index", None),
        ("item.finished", "seconds", "x"),
        ("item.finished", "seconds", -1.0),
        ("item.finished", "kept", 3),
        ("node.failed", "error", 3),
        ("node.failed", "error", "x" * 100_001),
        ("node.failed", "calls", -3),
        ("run.finished", "status", "running"),
        ("run.finished", "status", "excellent"),
        ("run.finished", "status", None),
    ],
)
def test_a_value_that_a_field_cannot_have_is_refused(file, kind, field, value):
    file.find(kind)[field] = value
    file.refused(f"planbench.{kind}")


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("node.started", "node_id"), ("node.finished", "status"), ("node.finished", "bytes"),
        ("node.finished", "version"), ("node.failed", "error"), ("item.finished", "index"),
        ("item.finished", "key"), ("item.finished", "bytes"), ("run.finished", "status"),
    ],
)  # fmt: skip
def test_a_field_that_is_missing_is_refused(file, kind, field):
    del file.find(kind)[field]
    file.refused("planbench.")


def test_a_node_that_ends_twice_is_refused(file):
    last = file.events[-1]
    again = {
        **last,
        "seq": last["seq"] + 1,
        "type": "planbench.node.blocked",
        "data": {"node_id": "sum"},
    }
    file.events.append(
        {**again, "type": "planbench.node.failed", "data": {"node_id": "sum", "error": "x"}}
    )
    file.refused("a node ended twice")


def test_an_item_beyond_the_last_is_refused(file):
    file.find("item.finished", index=1)["index"] = 2
    file.refused("has an item beyond its last")


def test_items_of_a_node_that_is_no_fan_out_are_refused(file):
    file.find("item.finished", index=1)["node_id"] = "sum"
    file.refused("is no fan-out, and has items")


def test_one_value_of_a_fan_out_is_refused(file):
    stored = file.find("node.finished", node_id="src")
    data = file.find("node.finished", node_id="fan")
    data.update({name: stored[name] for name in ("bytes", "version")}, key="other")
    file.refused("is a fan-out, and stored one value")


def test_two_results_under_one_key_are_refused(file):
    file.find("item.finished", index=1)["key"] = "src"
    file.refused("two results stand under 'src'")


# -- bodies --------------------------------------------------------------------------------


def body_of(file, data):
    return f"artifacts/{data['artifact']['sha256']}"


def replaced(file, codec, payload):
    """Let the result of the source be other bytes, under a digest that fits them."""
    data = file.find("node.finished", node_id="src")
    del file.members[body_of(file, data)]
    digest = hashlib.sha256(payload).hexdigest()
    data["artifact"] = {"sha256": digest, "codec": codec, "size": len(payload)}
    file.members[f"artifacts/{digest}"] = payload


def test_a_pickle_is_refused_and_not_looked_into(file, tmp_path):
    mark = tmp_path / "executed"

    class Evil:
        def __reduce__(self):
            return mark.touch, ()

    payload = pickle.dumps(Evil())
    replaced(file, "pickle", payload)
    file.refused("pickle")
    # nor when it is hidden behind the name of another codec
    for codec in ("json", "npy", "parquet", "parts"):
        replaced(file, codec, payload)
        file.write()
        with pytest.raises(ArtifactDamaged):
            open_run(file.path).run.value("src")
    assert not mark.exists()


def test_an_array_of_objects_is_refused(file):
    import io

    import numpy as np

    target = io.BytesIO()
    np.lib.format.write_array(target, np.array([{}], dtype=object), allow_pickle=True)
    replaced(file, "npy", target.getvalue())
    file.write()
    with pytest.raises(ArtifactDamaged):
        open_run(file.path).run.value("src")


@pytest.mark.parametrize(
    "record",
    [
        {}, {"sha256": "x", "codec": "json", "size": 1}, {"sha256": "../" * 21 + "x", "codec": "json", "size": 1},
        {"sha256": "0" * 64, "codec": "json", "size": -1}, {"sha256": "0" * 64, "codec": "exec", "size": 1},
        {"sha256": "0" * 64, "codec": ["json"], "size": 1}, {"sha256": "0" * 64, "codec": "json", "size": "1"},
    ],
)  # fmt: skip
def test_a_record_of_an_artifact_that_is_none_is_refused(file, record):
    file.find("node.finished", node_id="src")["artifact"] = record
    file.refused("record of an artifact is not")


def test_a_result_that_is_not_in_the_file_is_refused(file):
    del file.members[body_of(file, file.find("node.finished", node_id="src"))]
    file.refused("is not in it, or not of its size")


def test_a_result_of_another_size_is_refused(file):
    file.find("node.finished", node_id="src")["artifact"]["size"] += 1
    file.refused("is not in it, or not of its size")


def test_a_result_without_its_id_is_refused(file):
    del file.find("node.finished", node_id="src")["artifact_id"]
    file.refused("a result without its id")


def test_bytes_that_do_not_fit_their_digest_are_refused_when_they_are_read(file):
    name = body_of(file, file.find("node.finished", node_id="src"))
    file.members[name] = file.members[name].replace(b"a", b"b")
    file.write()
    saved = open_run(file.path)
    with pytest.raises(ArtifactDamaged, match="is not what was saved"):
        saved.run.value("src")
    with pytest.raises(ArtifactDamaged):
        saved.memory  # noqa: B018 - reading it is the matter


def test_millions_of_values_in_a_result_are_refused_before_they_are_made(file):
    payload = b"[" + b"[]," * 3_000_000 + b"[]]"
    replaced(file, "json", payload)
    file.write()
    saved = open_run(file.path, max_bytes=20_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactTooLarge, match="more values"):
            saved.run.value("src")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


# -- the other members ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header: [], "names no format"),
        (lambda header: {**header, "format": "1"}, "names no format"),
        (lambda header: {**header, "format": True}, "names no format"),
        (lambda header: {**header, "format": 2}, "of format 2, and this planbench reads format 1"),
        (lambda header: {**header, "run_id": "other"}, "it belongs to another run"),
        (lambda header: {**header, "run_id": 1}, "is not complete"),
        (lambda header: {**header, "run_id": ""}, "names no run"),
        (lambda header: {**header, "run_id": "a\nb"}, "names no run"),
        (lambda header: {**header, "saved": None}, "is not complete"),
        (lambda header: {**header, "left_out": {}}, "is not complete"),
        (lambda header: {**header, "left_out": [1]}, "is not complete"),
        (lambda header: {**header, "left_out": [{"node_id": 1}]}, "is not complete"),
        (lambda header: {"format": 1}, "is not complete"),
    ],
)
def test_a_header_that_is_none_is_refused(file, change, said):
    file.json("planrun.json", change)
    file.refused(said)


@pytest.mark.parametrize("name", ["planrun.json", "manifest.json", "tools.json"])
@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"9" * 100_000, b"\xff", b"[]" * 2])
def test_a_member_that_is_no_json_is_refused(file, name, data):
    file.members[name] = data
    file.refused(name)


@pytest.mark.parametrize("value", [{}, [1], [{}], [{"name": 1}], "x", None])
def test_tools_that_are_none_are_refused(file, value):
    file.json("tools.json", lambda _: value)
    file.refused("tools.json is not complete")


# -- whatever it is ------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_value_in_any_field_is_refused_or_can_be_shown(file, data):
    fresh = [json.loads(json.dumps(event)) for event in file.events]
    place = data.draw(st.integers(0, len(fresh) - 1))
    target = fresh[place]["data"]
    field = data.draw(st.sampled_from(sorted({*target, "total", "cancelled", "reset", "kept"})))
    target[field] = data.draw(JSON)
    lines = [(" " + json.dumps(event)).encode() for event in fresh]
    file.write(b"\n".join(lines))
    try:
        saved = open_run(file.path)
    except RecordDamaged:
        return
    run = saved.run
    assert run.manifest()
    assert run.failure_text() is not None
    assert run.items("fan") is not None
    assert saved._repr_html_()
    for node in run.plan.nodes:
        assert run.state.nodes[node.id].ref()
    try:
        assert saved.memory is not None
    except PlanbenchError:
        return


# -- what takes longer to work out than to read --------------------------------------------


def continued(file, times):
    last = file.events[-1]
    data = {"reset": [], "partly": [], "reruns": [], "seconds": 0.0}
    return [
        {**last, "seq": last["seq"] + at, "type": "planbench.run.continued", "data": data}
        for at in range(1, times + 1)
    ]


def test_a_run_that_was_continued_very_often_is_refused(file):
    file.events += continued(file, 1_001)
    file.refused("it was continued 1,001 times")


def test_nodes_that_begin_again_and_again_are_refused(file):
    last = file.events[-1]
    file.events += [
        {
            **last,
            "seq": last["seq"] + at,
            "type": "planbench.node.skipped",
            "data": {"node_id": "sum", "reason": "x"},
        }
        for at in range(1, 20_100)
    ]
    file.refused("nodes ran again")


def test_facts_without_end_are_refused(file):
    last = file.events[-1]
    file.events += [
        {
            **last,
            "seq": last["seq"] + at,
            "type": "planbench.node.progress",
            "data": {"node_id": "sum", "note": {f"n{at}": 1}},
        }
        for at in range(1, 300)
    ]
    file.refused("more than 200 noted facts")


@pytest.mark.parametrize(
    "note", [[1], {"a": []}, {"a\n": 1}, {"": 1}, {f"n{at}": 1 for at in range(21)}]
)
def test_a_note_that_is_none_is_refused(file, note):
    file.find("node.progress")["note"] = note
    file.refused("'note' has a value that it cannot have")


def test_the_run_of_an_algorithm_is_refused(file):
    file.events[0]["data"]["algorithm"] = "planbench.algos.ToolLoop"
    file.refused("it is the run of an algorithm")
