from __future__ import annotations

import asyncio
import operator
import os

import pytest

from planbench.errors import LanguageError, PathError
from planbench.plan.builder import Plan
from planbench.plan.handles import count, groups, index, item


@pytest.fixture
def plan():
    return Plan("p")


@pytest.fixture
def listing(plan):
    return plan.add("listing")


async def _await(handle):
    return await handle


GUARD = "when=listing.facet('count') > 0"
FAN_OUT = "p.map(tool, listing['rows[]'], key=item)"
TOOL = "compute in a tool"
TEXT = "{listing.text}"


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (bool, GUARD),
        (lambda h: h and 1, GUARD),
        (lambda h: not h, GUARD),
        (lambda h: 1 if h else 2, GUARD),
        (lambda h: 3 in h, GUARD),
        (list, FAN_OUT),
        (len, FAN_OUT),
        (lambda h: [*h], FAN_OUT),
        (lambda h: next(iter(h)), FAN_OUT),
        (reversed, FAN_OUT),
        (sorted, FAN_OUT),
        (lambda h: h + 1, TOOL),
        (lambda h: 1 + h, TOOL),
        (lambda h: "a" + h, TOOL),
        (lambda h: [1] + h, TOOL),  # noqa: RUF005 - adding is the matter
        (lambda h: h * 2, TOOL),
        (lambda h: 2**h, TOOL),
        (lambda h: -h, TOOL),
        (lambda h: h % 2, TOOL),
        (lambda h: h & 1, TOOL),
        (lambda h: 1 | h, TOOL),
        (int, TOOL),
        (float, TOOL),
        (operator.index, TOOL),
        (range, TOOL),
        (round, TOOL),
        (lambda h: h == 1, GUARD),
        (lambda h: h == h, GUARD),  # noqa: PLR0124 - comparing is the matter
        (lambda h: h != 1, GUARD),
        (lambda h: h < 1, GUARD),
        (lambda h: operator.lt(1, h), GUARD),
        (lambda h: h in [1, 2], GUARD),
        (lambda h: max([h, 1]), GUARD),
        (lambda h: f"{h}", TEXT),
        (lambda h: f"{h:>10}", TEXT),
        (str, TEXT),
        (lambda h: "%s" % h, TEXT),  # noqa: UP031 - as people write it
        ("{}".format, TEXT),
        (os.fspath, TEXT),
        (operator.call, "p.add(tool, ...)"),
        (lambda h: operator.setitem(h, "a", 1), "change the value in a tool"),
        (lambda h: asyncio.run(_await(h)), "run_plan(p.build(), ...)"),
    ],
)
def test_what_would_need_the_value_is_refused_and_says_what_to_write(listing, use, advice):
    with pytest.raises(LanguageError) as refused:
        use(listing)

    assert "has its value only when the plan runs" in refused.value.message
    assert advice in refused.value.hint


def test_the_advice_is_about_the_handle_at_hand(plan):
    for handle, advice in [
        (plan.add("fetch"), "fetch.facet('count') > 0"),
        (plan.add("fetch", id="my-id"), "handle.facet('count') > 0"),
        (plan.param("least", int), "rows.facet('n') > least"),
        (item, "let the tool decide for each item"),
    ]:
        with pytest.raises(LanguageError) as refused:
            bool(handle)
        assert advice in refused.value.hint


def test_a_field_is_written_in_brackets(listing, plan):
    with pytest.raises(AttributeError, match=r"a path is written in brackets, as listing\['rows"):
        listing.rows  # noqa: B018 - looking it up is the matter
    with pytest.raises(AttributeError, match=r"as item\['name'\]"):
        item.name  # noqa: B018 - as above
    with pytest.raises(AttributeError):
        plan.param("x").rows  # noqa: B018 - as above
    assert not hasattr(listing, "_repr_html_")


def test_a_path_is_read_when_it_is_written(listing):
    assert repr(listing["rows[].a"]) == "<rows[].a of {artifacts.listing}>"
    with pytest.raises(PathError):
        listing["rows[*]"]
    with pytest.raises(PathError):
        count("$.rows")
    with pytest.raises(PathError):
        groups("")


def test_a_part_of_a_result_is_no_argument(plan, listing):
    with pytest.raises(LanguageError, match="a tool is given the whole result"):
        plan.add("t", value=listing["rows[]"])


def test_an_item_has_a_meaning_only_in_a_fan_out(plan, listing):
    for handle in (item, item["a"], index):
        with pytest.raises(LanguageError, match="only in a fan-out"):
            plan.add("t", value=[handle])
        plan.map("t", listing, value=[handle])
    for wrong in ("a b", "", "a..b", 0, "a."):
        with pytest.raises(LanguageError, match="names no field of an item"):
            item[wrong]


def test_handles_can_be_kept_in_sets_and_shown(listing):
    assert listing in {listing: 1}
    assert len({listing, item, index}) == 3
    assert repr(listing) == "<{artifacts.listing}>"
    assert repr(item["a.b"]) == "<{item.a.b}>"
    assert repr([count("a[]"), groups("b[]")]) == "[count('a[]'), groups('b[]')]"
