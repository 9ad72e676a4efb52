import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.llm import loose_json
from planbench.llm.loose_json import Scanner
from planbench.plan.source import apply

KEYS = ("steps",)


def scan(text, start=0):
    return Scanner(text, KEYS).scan(start)


def mended(text):
    span = scan(text)
    assert (span.state, span.end, span.faults) == ("whole", len(text), [])
    return json.loads(apply(text, span.edits))


def faults(text):
    return [(fault.code, fault.offset) for fault in scan(text).faults]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"a": [1, -2.5e+3, true, false, null, "x", {}, []], "b": {"c": "d"}}',
        '{"a": "a, ] and b, } // no # comment, \\"quotes\\" \\\\"}',
        '{"a": "“x” \\u00e9 it\'s"}',
    ],
)
def test_json_needs_no_edit(text):
    span = scan(text)

    assert (span.state, span.end, span.edits, span.faults) == ("whole", len(text), [], [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], "b": {"c": 1,},}', {"a": [1, 2], "b": {"c": 1}}),
        ('{"a": [1 , // one\n ]}', {"a": [1]}),
        ('{"a": 1, // to the end, "x": [\n"b": 2 # and } this\n}', {"a": 1, "b": 2}),
        ('{"u": "https://x.org/#a", // why\n}', {"u": "https://x.org/#a"}),
        ("{'a': True, 'b': [False, None]}", {"a": True, "b": [False, None]}),
        ("{'a': 'it\\'s \"so\"\\n\\x41\\u00e9'}", {"a": 'it\'s "so"\nA\u00e9'}),
        ('{"a": "don\\\'t, \\x41\\/\\v\\ud83d\\ude00"}', {"a": "don't, A/\v\U0001f600"}),
        ("{“a”: “it\\'s”}", {"a": "it's"}),
        ("{“a”: “b, it's”, „c“: 1}", {"a": "b, it's", "c": 1}),
        ("{“a”: “b, it's \\n”, ”c”: 1}", {"a": "b, it's \n", "c": 1}),
        ('{"a": "one\ntwo\tthree\r\n\x1b"}', {"a": "one\ntwo\tthree\r\n\x1b"}),
        ('\xa0{"a":\xa01}'[1:], {"a": 1}),
        ('{\ufeff"a": 1\u200b}', {"a": 1}),
        ('{"True": "True, None, NaN", "b": "\'x\'"}', {"True": "True, None, NaN", "b": "'x'"}),
    ],
)
def test_what_models_write_for_json_says_the_same(text, value):
    assert mended(text) == value


def test_an_edit_leaves_what_follows_on_its_line():
    text = '{"a": "one\ntwo", "b": \'x\ny\',\n"c": 1}'

    again = apply(text, scan(text).edits)

    assert [line.lstrip() for line in again.splitlines()] == [
        '{"a": "one\\ntwo"',
        ', "b": "x\\ny"',
        ",",
        '"c": 1}',
    ]
    assert again.splitlines()[1].index(",") == text.splitlines()[1].index(",")


@pytest.mark.parametrize("word", ["NaN", "-Infinity", "nan", "+inf", "1e999", "-1E400", "9" * 4001])
def test_a_number_that_json_cannot_hold_is_told(word):
    assert faults(f'{{"a": {word}, "b": 1}}') == [("invalid_number", 6)]


@pytest.mark.parametrize("word", ["012", "+1", ".5", "1.", "0x1F", "1_000", "2024-01-01", "1.2.3"])
def test_a_word_that_is_almost_a_number_is_told(word):
    assert faults(f'{{"a": [{word}]}}') == [("invalid_number", 7)]


@pytest.mark.parametrize("escape", ["\\d", "\\N{BULLET}", "\\0", "\\/", "\\ud83d", "\\U00110000"])
def test_an_escape_that_is_read_in_different_ways_is_told(escape):
    assert faults(f"{{'a': 'x{escape}'}}") == [("invalid_json", 8)]


def test_an_escape_of_json_is_left_to_its_reader():
    assert faults('{"a": "\\/ \\ud83d\\ude00"}') == []
    assert faults('{"a": "\\\\d"}') == []
    assert faults('{"a": "x\\d"}') == [("invalid_json", 8)]
    assert faults('{"a": "x\\\n"}') == [("invalid_json", 8)]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ('{"a": 1 "b"} x', 8),
        ('{"a": x, "b"} x', 6),
        ('{"a" 1} x', 5),
        ('{"a": [1, , 2]} x', 10),
        ('{"a": [,]} x', 7),
        ("{,} x", 1),
        ('{"a": 1] x', 7),
        ('{"a": [1} x', 8),
        ('{"a": {b}} x', 7),
        ('{"a": (1,)} x', 6),
        ('{1: "a"} x', 1),
        ('{"a": "say "hi" now"} x', 12),
        ('{"steps": [...]} x', 11),
        ('{"a": 12:30} x', 8),
        ('{"a": undefined} x', 6),
        ("{“a”: “say “hi” now”} x", 12),
    ],
)
def test_what_is_no_json_is_broken_where_it_cannot_be_followed(text, end):
    span = scan(text)

    assert (span.state, span.end) == ("broken", end)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a',
        '{"a"',
        '{"a": ',
        '{"a": [1, 2',
        '{"a": "x',
        "{'a': 'x",
        '{"a": tru',
        '{"a": 1}'[:-1],
    ],
)
def test_what_the_end_of_the_text_meets_is_cut(text):
    assert scan(text).state == "cut"
    assert scan(text + " \n").state == "cut"


def test_the_end_of_a_fence_cuts_too():
    assert scan('{"a": [1,\n```\nBye').state == "cut"
    assert scan('{"a": 1\n~~~\nBye').state == "cut"
    assert scan('{"a": 1\n\nBye').state == "broken"
    assert scan('{"a": [1,\n\nSo far.').state == "broken"


def test_a_span_knows_where_the_wanted_key_stands():
    def keys(text):
        span = scan(text)
        return span.keyed, span.mentions, span.has_key, span.maps

    assert keys("{}") == (False, False, False, 1)
    assert keys('{"a": "steps"}') == (True, False, False, 1)
    assert keys('{"a": {"steps": []}}') == (True, True, False, 2)
    assert keys('{"steps": [{}]}') == (True, True, True, 2)
    assert keys('[{"steps": 1}]') == (True, True, True, 1)
    assert keys('[{"a": {"steps": 1}}]') == (True, True, False, 2)
    assert keys('{"plan": {"steps": 1}}') == (True, True, True, 2)
    assert keys('{"plan": [{"steps": 1}]}') == (True, True, False, 2)
    assert keys('{"plan": 1, "a": {"steps": 1}}') == (True, True, False, 2)


def test_brackets_that_lead_to_nothing_are_not_tried_again():
    scanner = Scanner('{"a": [[{"b": {"c": [1]}, x', KEYS)

    scanner.scan(0)

    assert scanner.dead == {0, 6, 7, 8}


@settings(max_examples=300)
@given(st.text(alphabet="{}[]:,\"'\\ a1/#\n“”", max_size=60))
def test_any_text_can_be_followed_and_a_whole_one_can_be_read(text):
    span = scan("{" + text)

    assert 0 <= span.end <= len(text) + 1
    if span.state == "whole" and not span.faults:
        assert isinstance(json.loads(apply("{" + text, span.edits)[: _end(text, span)]), dict)


def _end(text, span):
    grown = sum(len(edit.text) - (edit.end - edit.start) for edit in span.edits)
    return span.end + grown


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans())
def test_json_is_whole_and_is_never_edited(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    span = scan(text)

    assert (span.state, span.end, span.edits, span.faults) == ("whole", len(text), [], [])


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_what_python_prints_says_the_same(value):
    assert mended(repr(value)) == value


class Loose:
    """Writes JSON the way that models do, as the choices say."""

    def __init__(self, draw):
        self._draw = draw

    def _one_of(self, *choices):
        return self._draw(st.sampled_from(choices))

    def space(self):
        return self._one_of("", "", " ", "\n", " // a, ]\n", " # {b\n", "\xa0")

    def write(self, value):
        if isinstance(value, dict):
            items = [
                f"{self.text(k)}{self.space()}:{self.space()}{self.write(v)}"
                for k, v in value.items()
            ]
            return self._around("{", items, "}")
        if isinstance(value, list):
            return self._around("[", [self.write(item) for item in value], "]")
        if isinstance(value, str):
            return self.text(value)
        return self._one_of(json.dumps(value), repr(value))

    def text(self, value):
        plain = json.dumps(value, ensure_ascii=self._draw(st.booleans()))
        raw = plain.replace("\\n", "\n") if "\\\\" not in plain else plain
        return self._one_of(plain, raw, repr(value))

    def _around(self, opening, items, closing):
        comma = self._one_of("", ",") if items else ""
        inside = f"{self.space()},{self.space()}".join(items)
        return f"{opening}{self.space()}{inside}{self.space()}{comma}{self.space()}{closing}"


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=3), st.data())
def test_however_loosely_it_is_written_every_value_stays(value, data):
    assert mended(Loose(data.draw).write(value)) == value


class Counting:
    def __init__(self, pattern):
        self.pattern = pattern
        self.count = 0

    def match(self, text, at):
        self.count += 1
        return self.pattern.match(text, at)


@pytest.mark.parametrize(
    "piece", ['{"a":"', "{'a':'", '{"a"://', '{"a"://"\n', '{"a":[', '{"a":"\\"', '{"a":{"b":\'"']
)
def test_all_starts_together_look_at_each_character_a_few_times(piece, monkeypatch):
    counting = Counting(loose_json._TOKEN)
    monkeypatch.setattr(loose_json, "_TOKEN", counting)
    text = piece * (20_000 // len(piece))
    scanner = Scanner(text, KEYS)
    at = 0
    while (start := text.find("{", at)) >= 0:
        span = None if start in scanner.dead else scanner.scan(start)
        at = start + 1 if span is None or not scanner.is_spent else max(span.end, start + 1)

    assert counting.count < 15 * len(text)
