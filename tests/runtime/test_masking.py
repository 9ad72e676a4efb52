"""Masking: no form of a value is left, whatever it is written in and wherever it is cut."""

import base64
import copy
import html
import json
import pickle
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench import events as ev
from planbench.runtime.masking import Masking

VALUE = "s3cr3t/+\u00fc \"q' 9f7c=&<x>\\"
LINES = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"

values = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=40).filter(
    lambda text: len(text.strip()) >= 4 and "*" not in text
)


def masking(**named):
    made = Masking()
    for name, value in named.items():
        made.learn(name, value)
    return made


@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        ascii,
        json.dumps,
        lambda v: json.dumps(v, ensure_ascii=False),
        lambda v: quote(v, safe=""),
        quote,
        quote_plus,
        lambda v: quote(v, safe="").lower(),
        html.escape,
        lambda v: repr(v.encode()),
        lambda v: v.encode().hex(),
        lambda v: base64.b64encode(v.encode()).decode(),
        lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
        lambda v: base64.b64encode(f"user:{v}".encode()).decode(),
        lambda v: base64.b64encode(f"ab:{v}:cd".encode()).decode(),
        lambda v: base64.b64encode(f"a:{v}:c".encode()).decode(),
        lambda v: repr({"a": f'it\'s "{v}"'}),
    ],
)
def test_a_value_is_masked_in_the_encodings_that_are_common(write):
    written = write(VALUE.lower())
    found = masking(TOKEN=VALUE.lower()).mask(f"before {written} after")
    assert "***TOKEN***" in found
    assert found.startswith("before ")
    assert found.endswith(" after")
    assert "s3cr3t" not in found
    assert "9f7c" not in found
    # of base64 no more is left than the characters that it shares with what stands around
    assert len(found) <= len("before ***TOKEN*** after") + len(written) - len(VALUE) + 8


@given(value=values, before=st.text(max_size=20), after=st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_no_text_holds_a_value_when_it_was_masked(value, before, after):
    secrets = masking(N=value)
    once = secrets.mask(f"{before}{value}{after}")
    assert value not in once.replace("***N***", "\0")
    assert secrets.mask(once).replace("***N***", "") == once.replace("***N***", "")


@given(value=values, around=st.text(max_size=10), data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_value_in_pieces_is_masked_as_one(value, around, data):
    text = f"{around}{value}{around}{value}"
    secrets = masking(N=value)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    told, rest = "", ""
    for start, stop in zip([0, *places], [*places, len(text)], strict=True):
        ready, rest = secrets.split(rest + text[start:stop])
        told += ready
    told += secrets.mask(rest)
    assert value not in told.replace("***N***", "\0")


@pytest.mark.parametrize("left", range(4, len(VALUE)))
def test_the_beginning_of_a_value_at_the_end_of_a_text_that_was_cut_is_masked(left):
    secrets = masking(TOKEN=VALUE)
    assert secrets.mask(f"bad {VALUE[:left]}...") == "bad ***TOKEN***..."
    assert secrets.mask(f"{'x' * 300}{VALUE[:left]}") == f"{'x' * 300}***TOKEN***"


def test_a_text_that_was_not_cut_may_end_like_the_beginning_of_a_value():
    assert masking(PASSWORD="production-7").mask("we are in prod") == "we are in prod"


def test_a_text_is_masked_before_its_head_is_taken():
    secrets = masking(TOKEN=VALUE)
    for start in range(60):
        assert not any(
            VALUE[:n] in secrets.head(f"{'x' * start}{VALUE}", 50) for n in range(4, len(VALUE))
        )


def test_values_that_overlap_leave_nothing_of_either():
    secrets = masking(A="abcdefgh", B="efghijkl")
    assert secrets.mask("<abcdefghijkl>") == "<***A***>"
    assert secrets.mask("<abcdefgh><efghijkl>") == "<***A***><***B***>"


def test_the_lines_of_a_value_are_masked_one_by_one():
    secrets = masking(KEY=LINES)
    for text in (LINES, repr(LINES), json.dumps(LINES), *LINES.splitlines()):
        assert "MII" not in secrets.mask(text)
        assert "kqh" not in secrets.mask(text)


def test_a_value_of_fewer_than_four_characters_is_not_masked():
    secrets = masking(PIN="123", BLANK="   1   ")
    assert secrets.mask("123 of 1123") == "123 of 1123"
    assert secrets.clean({"n": 123}) == {"n": 123}
    assert not secrets.holds("123")


def test_former_values_stay_masked():
    secrets = masking(TOKEN="first-value")
    secrets.learn("TOKEN", "second-value")
    assert secrets.mask("first-value, second-value") == "***TOKEN***, ***TOKEN***"


def test_json_values_are_masked_throughout_and_numbers_when_they_are_the_value():
    secrets = masking(PIN="4711")
    found = secrets.clean({"a 4711": ["4711", 4711, 47110, 4711.0, True, None, {"x": "no"}]})
    assert found == {
        "a ***PIN***": ["***PIN***", "***PIN***", 47110, 4711.0, True, None, {"x": "no"}]
    }
    assert secrets.clean({"4711": 1, "***PIN***": 2}) == {"***PIN***": 3}


def test_ids_and_names_of_the_plan_stay_in_events():
    secrets = masking(WORD="fetch")
    data = {"node_id": "fetch", "key": "fetch.0", "facets": {"fetch": "fetch"}, "error": "fetch"}
    masked = {**data, "facets": {"fetch": "***WORD***"}, "error": "***WORD***"}
    assert secrets.event(ev.NODE_FAILED, data) == masked
    assert secrets.event(ev.ITEM_FAILED, data) == {**masked, "key": "***WORD***.0"}
    ended = {"status": "fetch", "cancelled": {"fetch": "cancelled fetch"}}
    assert secrets.event(ev.RUN_CANCELLED, ended) == {
        "status": "fetch",
        "cancelled": {"fetch": "cancelled ***WORD***"},
    }


def test_nothing_shows_what_is_masked():
    secrets = masking(TOKEN=VALUE)
    assert repr(secrets) == "<Masking of ***TOKEN***>"
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="written nowhere"):
            write(secrets)
