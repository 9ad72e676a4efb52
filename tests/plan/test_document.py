import json
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.plan import yaml_reader
from planbench.plan.document import Document, Limits, Mark, read_document


def only(text, **limits):
    document = read_document(text, Limits(**limits))
    assert len(document.problems) == 1, document.problems
    return document.problems[0]


def shown(text):
    """The value, and each problem as code, line, column and fix."""
    document = read_document(text)
    found = [(p.code, p.line, p.column, p.fix) for p in document.problems]
    return document.value, found


def test_every_value_and_key_knows_its_line_and_column():
    document = read_document("name: x\nnodes:\n  - id: a\n    args: {key: 1, list: [2, 3]}\n")

    assert document.value == {
        "name": "x",
        "nodes": [{"id": "a", "args": {"key": 1, "list": [2, 3]}}],
    }
    assert document.mark(()) == Mark(1, 1)
    assert document.mark(("name",)) == Mark(1, 7)
    assert document.key_mark(("name",)) == Mark(1, 1)
    assert document.mark(("nodes", 0)) == Mark(3, 5)
    assert document.key_mark(("nodes", 0, "args")) == Mark(4, 5)
    assert document.mark(("nodes", 0, "args", "key")) == Mark(4, 17)
    assert document.mark(("nodes", 0, "args", "list", 1)) == Mark(4, 30)


def test_a_path_that_is_not_there_has_the_place_of_what_is_around_it():
    document = read_document("a:\n  b: [1]\n")

    assert document.mark(("a", "zzz", 5)) == Mark(2, 3)
    assert document.mark(("a", "b", 7)) == Mark(2, 6)
    assert document.key_mark(("a", "zzz")) == Mark(2, 3)
    assert document.mark(("a", "b", "x", "y")) == Mark(2, 6)


def test_a_document_made_of_values_has_no_places():
    document = Document({"a": 1})

    assert document.mark(("a",)) is None
    assert document.problems == []


@pytest.mark.parametrize(
    "word",
    [
        "0123",
        "1e3",
        "1.10",
        "12:30",
        "2024-01-01",
        "no",
        "on",
        "off",
        "yes",
        "Y",
        "n",
        "True",
        "FALSE",
        "Null",
        "NULL",
        ".nan",
        ".inf",
        "-0",
        "+1",
        "0x1f",
        "0o7",
        "1_000",
        "1.",
        ".5",
        "1e5",
        "-.5",
        "2024-01-01T00:00:00Z",
        "1:2:3",
        "nan",
        "inf",
        "Infinity",
        "NaN",
        "00",
        "-01",
        "1.50",
        "1e+3",
    ],
)
def test_a_word_that_is_not_a_canonical_value_stays_text(word):
    assert read_document(f"k: {word}").value == {"k": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", 0),
        ("12", 12),
        ("-7", -7),
        ("1.5", 1.5),
        ("1.0", 1.0),
        ("-0.0", -0.0),
        ("1e+16", 1e16),
        ("1e-07", 1e-07),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("9" * 40, int("9" * 40)),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_canonical_words_are_values(word, value):
    found = read_document(f"k: {word}").value["k"]

    assert found == value
    assert type(found) is type(value)


def test_quoted_words_are_text():
    assert read_document("a: '1'\nb: \"true\"\nc: 'null'\nd: |\n  1\n").value == {
        "a": "1",
        "b": "true",
        "c": "null",
        "d": "1\n",
    }


def test_keys_stay_text():
    assert read_document("no: 1\non: 2\n1: 3\nnull: 4\n2024-01-01: 5\n").value == {
        "no": 1,
        "on": 2,
        "1": 3,
        "null": 4,
        "2024-01-01": 5,
    }


def test_yaml_s_own_tags_say_what_a_scalar_is():
    assert read_document("a: !!str 5\nb: !!float 5\nc: !!float .inf\nd: !!int 5").value == {
        "a": "5",
        "b": 5.0,
        "c": float("inf"),
        "d": 5,
    }
    assert only("a: !!int many").message == "the tag does not fit: 'many' is no int"
    assert only("a: !!python/object:os.system {}").code == "yaml_syntax"


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", '{"a": 1,\n"b": 2,\n"a": 3}'])
def test_a_key_that_stands_twice_is_told_with_both_lines(text):
    document = read_document(text)

    (problem,) = document.problems
    assert (problem.code, problem.line, problem.column) == ("duplicate_key", 3, 1)
    assert "on lines 1 and 3" in problem.message
    assert document.value == {"a": 1, "b": 2}
    assert document.mark(("a",)).line == 1


def test_a_key_that_stands_twice_on_one_line_is_told_once():
    assert "on line 1" in only('{"a": {"x": 1}, "a": {"y": 2}}').message


def test_several_documents_are_refused_where_the_second_starts():
    value, found = shown("a: 1\n---\nb: 2\n")

    assert value == {"a": 1}
    assert [problem[:3] for problem in found] == [("yaml_syntax", 2, 1)]
    assert read_document("---\na: 1\n...\n").problems == []


def test_a_tab_in_the_indentation_is_named():
    problem = only("a:\n\t- b\n")

    assert (problem.line, problem.column) == (2, 1)
    assert "a tab indents this line" in problem.message


def test_tabs_elsewhere_are_fine():
    assert read_document("a:\t1\nb: x\ty\n").value == {"a": 1, "b": "x\ty"}
    assert read_document('{\n\t"a":\t1\n}').value == {"a": 1}


def test_anchors_and_merge_keys_work():
    text = (
        "base: &b {x: 1, y: [1, 2]}\nuse: *b\nmore:\n  <<: *b\n  x: 9\nboth: {<<: [*b, {z: 3}]}\n"
    )
    document = read_document(text)

    assert document.problems == []
    assert document.value["use"] == {"x": 1, "y": [1, 2]}
    assert document.value["more"] == {"x": 9, "y": [1, 2]}
    assert document.value["both"] == {"x": 1, "y": [1, 2], "z": 3}
    assert document.mark(("more", "y", 1)) == Mark(1, 24)


def test_a_quoted_merge_sign_is_a_key():
    assert read_document('"<<": 1').value == {"<<": 1}


def test_a_merge_of_what_is_no_map_is_told():
    assert "<< merges maps" in only("<<: 3\na: 1").message


def bomb(levels, width):
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines)


def test_an_alias_bomb_is_refused_at_once():
    started = time.monotonic()
    document = read_document(bomb(40, 10))

    assert "aliases repeat more than" in document.problems[0].message
    assert not document.complete
    assert time.monotonic() - started < 60  # it would take longer than the universe is old


def test_the_limit_on_aliases_can_be_moved():
    assert read_document(bomb(3, 10)).problems == []
    assert "more than 50 values" in only(bomb(3, 10), max_expanded=50).message


def test_aliases_do_not_get_around_the_limit_on_depth():
    text = "a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 300))

    assert any("nested deeper" in p.message for p in read_document(text).problems)


def test_an_alias_inside_what_it_repeats_is_no_loop():
    document = read_document("a: &a [1, *a]")

    assert document.value == {"a": [1, None]}
    assert "inside what it repeats" in document.problems[0].message


def test_an_alias_of_nothing_is_taken_for_text():
    assert shown("a: *todo") == ({"a": "*todo"}, [("yaml_syntax", 1, 4, 'a: "*todo"')])


@pytest.mark.parametrize("bad", ["\0", "\ud83d"])
def test_nul_and_lone_surrogates_are_refused(bad):
    problem = only(f"a: 1\nb: x{bad}\n")

    assert (problem.code, problem.line, problem.column) == ("yaml_syntax", 2, 5)


def test_a_lone_surrogate_written_as_an_escape_is_refused_and_a_pair_is_a_character():
    assert "lone surrogate" in only('{"a": "\\ud83d"}').message
    assert read_document('{"a": "\\ud83d\\ude00"}').value == {"a": "\U0001f600"}
    assert only('a: "\\ud83d"').code == "yaml_syntax"


def test_other_control_characters_are_refused_with_their_place():
    problem = only("é: 1\nü: \x07\n")

    assert (problem.line, problem.column) == (2, 4)
    assert "'\\x07'" in problem.message


def test_over_long_and_over_deep_text_is_refused_and_the_limits_can_be_moved():
    assert "at most 10 are read" in only("a: " + "x" * 20, max_chars=10).message
    assert "nested deeper than 3 levels" in only("[[[[1]]]]", max_depth=3).message
    assert "nested deeper than 3 levels" in only("- - - - 1", max_depth=3).message
    assert "more than 5 values" in only("[1,2,3,4,5,6,7]", max_values=5).message
    assert "more than 5 values" in only("- 1\n" * 9, max_values=5).message


@pytest.mark.parametrize("written", [json.dumps, yaml.safe_dump])
def test_each_node_has_values_of_its_own_and_what_is_beside_them_is_bounded(written):
    def plan(count, values, **more):
        nodes = [{"id": f"n{i}", "tool": "t", "args": {"x": [0] * values}} for i in range(count)]
        return written({"name": "p", "nodes": nodes, **more})

    assert read_document(plan(40, 60), Limits(max_values=50)).problems == []
    assert read_document(f"plan: {json.dumps({'nodes': [{'id': 'a', 'tool': 't', 'x': [0] * 60}]})}",
                         Limits(max_values=20)).problems == []  # fmt: skip
    for text in (
        plan(1, 200),
        plan(1, 0, x=[0] * 60),
        plan(1, 0, x="{" * 60),
        written({"name": "p", "nodes": [{"a": 0, "b": 0}] * 60}),
        written({"name": "p", "nodes": [{"id": "a", "tool": "t", "x": "{item}" * 200}]}),
    ):
        problem = only(text, max_values=50)
        assert "more than 50 values" in problem.message
        assert problem.fix
    problem = only(plan(4, 0), max_nodes=3)
    assert "more than 3 nodes" in problem.message


def test_what_aliases_repeat_counts_with_its_placeholders():
    for value in (f"'{'{item}' * 9}'", f"[{{x: '{'{item}' * 9}'}}]"):
        text = f"a: &a {value}\nb: [{'*a ,' * 9}]"
        assert read_document(text, Limits(max_expanded=500)).problems == []
        assert "aliases repeat more than 50" in only(text, max_expanded=50).message


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, '{"a":' * 100_000, "{" * 50_000])
def test_deep_text_never_recurses(text):
    assert "nest" in read_document(text).problems[0].message


def test_a_byte_order_mark_and_windows_line_ends_do_not_move_places():
    document = read_document("\ufeffa: 1\r\nb: {c: 2}\r\n")

    assert document.value == {"a": 1, "b": {"c": 2}}
    assert document.mark(("a",)) == Mark(1, 4)
    assert document.mark(("b", "c")) == Mark(2, 8)


def test_columns_count_characters():
    assert read_document("é: [ü, \U0001f600, x]").mark(("é", 2)) == Mark(1, 11)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "   \n"])
def test_text_without_a_value_is_nothing(text):
    assert shown(text) == (None, [])


def test_a_key_that_is_a_list_is_told_and_left_out():
    value, found = shown("? [a]\n: b\nc: 1")

    assert value == {"c": 1}
    assert found[0][:3] == ("yaml_syntax", 1, 3)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("p: *.csv", "*.csv"),
        ("p: @daily", "@daily"),
        ("p: %d rows", "%d rows"),
        ("p: `x`", "`x`"),
        ("p: Sweep: find what is new", "Sweep: find what is new"),
    ],
)
def test_other_texts_that_need_quotes_are_told_and_read(line, value):
    assert shown(line) == ({"p": value}, [("yaml_syntax", 1, 4, f'p: "{value}"')])


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: 'x", 1, 6),
        ("a: [1, 2", 1, 9),
        ("a:\n  - b\n - c\n", 3, 2),
        ("a: b\n c: d\n", 2, 3),
        ('a: "b\\q"', 1, 6),
        ("a: 1\n b: 2\n", 2, 3),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line_with_its_place(text, line, column):
    document = read_document(text)

    (problem,) = document.problems
    assert (problem.code, problem.line, problem.column) == ("yaml_syntax", line, column)
    assert "\n" not in str(problem)
    assert not document.complete


def test_many_problems_stay_quick_and_bounded():
    text = "\n".join(f"k{i}: {{item.x{i}}}" for i in range(5000)) + "\n" + "d: 1\n" * 5000

    assert 0 < len(read_document(text).problems) <= 1000


def test_the_reader_does_without_libyaml(monkeypatch):
    monkeypatch.setattr(yaml_reader, "LOADER", yaml.SafeLoader)

    assert shown("q: {artifacts.x}\nk: {item.a}_x\nn: 0123\ni: 12\nl: [a, 'b']\n") == (
        {"q": "{artifacts.x}", "k": "{item.a}_x", "n": "0123", "i": 12, "l": ["a", "b"]},
        [
            ("unquoted_placeholder", 1, 4, 'q: "{artifacts.x}"'),
            ("unquoted_placeholder", 2, 4, 'k: "{item.a}_x"'),
        ],
    )
    assert (only("é: \x07").line, only("é: \x07").column) == (1, 4)


@settings(max_examples=500)
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=80))
def test_any_text_gives_a_document(text):
    document = read_document(text)

    assert all(problem.line >= 1 and problem.column >= 1 for problem in document.problems)
    assert document.complete or document.problems


@settings(max_examples=500)
@given(st.text(alphabet="ab:{}[],-?&*!|>'\"%@`# \n\t.0<é_x", max_size=60))
def test_any_text_of_the_signs_of_yaml_gives_a_document(text):
    document = read_document(text)

    assert document.complete or document.problems
    for problem in document.problems:
        lines = text.split("\n")
        assert problem.line <= len(lines)
        assert problem.column <= len(lines[problem.line - 1]) + 1
