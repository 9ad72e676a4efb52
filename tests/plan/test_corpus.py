"""The examples of the grammar: each row of ``corpus.json`` holds, and the page shows only those."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from planbench.errors import GuardError, PathError, PlaceholderError
from planbench.plan.document import read_document
from planbench.plan.draft import draft
from planbench.plan.facets import FacetReader
from planbench.plan.guards import compile_guard
from planbench.plan.model import FacetSpec
from planbench.plan.paths import compile_path
from planbench.plan.placeholders import Scope, Template
from planbench.plan.short_guards import lengthened, names_of, shortened
from planbench.plan.substitution import substitute
from planbench.plan.sugar import long_source, short_source

CORPUS = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
GIVEN = CORPUS.pop("given")
PAGE = Path(__file__).parents[2] / "docs" / "grammar.md"
IDS = names_of(dict.fromkeys(["listing", "diff", "my-id"]))


def rows(name):
    return pytest.mark.parametrize(
        "row", CORPUS[name], ids=lambda row: next(iter(row.values())) or "empty"
    )


def said(error):
    return f"{error.message} {error.hint or ''}"


def resolved(value, alias=None, *, items=True):
    scope = Scope(
        GIVEN["artifacts"].__getitem__,
        lambda name: {"node_id": name},
        GIVEN["item"],
        GIVEN["index"],
    )
    return Template(value, alias, items=items).resolve(scope)


def same(found, expected):
    assert found == expected
    assert type(found) is type(expected)


@rows("placeholders")
def test_a_text_with_placeholders_gives_what_the_corpus_says(row):
    if "error" in row:
        with pytest.raises(PlaceholderError) as error:
            resolved(row["text"])
        assert row["error"] in said(error.value)
    else:
        same(resolved(row["text"]), row["gives"])
        same(resolved({"deep": [row["text"]]})["deep"][0], row["gives"])


@rows("aliases")
def test_items_have_a_name_of_their_own_or_none(row):
    alias = row["alias"]
    same(resolved(row["text"], alias, items=alias is not None), row["gives"])


@rows("parameters")
def test_a_parameter_arrives_as_it_is(row):
    bound = substitute(row["text"], GIVEN["params"])

    same(resolved(bound), row["gives"])


def value_of(name):
    value = GIVEN[name]
    return pd.DataFrame(value) if name == "table" else value


@rows("paths")
def test_a_path_reads_what_the_corpus_says(row):
    if "error" in row:
        with pytest.raises(PathError) as error:
            compile_path(row["path"]).read(value_of(row["of"]))
        assert row["error"] in said(error.value)
        return
    found = compile_path(row["path"]).read(value_of(row["of"]))
    found = found.tolist() if isinstance(found, pd.Series) else found
    assert found == row["gives"]


def read_node(**fields):
    record = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "t", **fields}]}
    return draft(read_document(json.dumps(record)))


@rows("facets")
def test_a_facet_in_the_short_form_is_one_of_the_long_form_and_reads_the_result(row):
    made = read_node(facets={"f": row["facet"]})
    if "error" in row:
        assert row["error"] in made.issues[0].message
        return
    ((kind, path),) = row["long"].items()
    assert made.plan.nodes[0].facets == FacetSpec(**{kind: {"f": path}})
    facets, problems = FacetReader(made.plan.nodes[0].facets).read(value_of(row["of"]))
    assert (facets, problems) == ({"f": row["gives"]}, [])


def places(values):
    return {tuple(name.split(".")): value for name, value in values.items()}


@rows("guards")
def test_a_guard_answers_or_is_refused_with_what_to_write(row):
    if "bad" in row:
        with pytest.raises(GuardError) as error:
            compile_guard(row["guard"])
        assert row["bad"] in said(error.value)
    elif "error" in row:
        with pytest.raises(GuardError) as error:
            compile_guard(row["guard"]).evaluate(places(row["values"]))
        assert row["error"] in said(error.value)
    else:
        guard = compile_guard(row["guard"])
        assert guard.evaluate(places(row["values"])) is row["gives"]
        assert set(places(row["values"])) == set(guard.reads)


@rows("short")
def test_a_short_form_stands_for_the_long_one_and_back(row):
    if row["field"] == "for_each":
        assert long_source(row["short"]) == row["long"]
        assert short_source(row["long"]) == row["short"]
    else:
        assert lengthened(row["short"], IDS) == row["long"]
        assert lengthened(shortened(row["long"], IDS), IDS) == row["long"]


# -- the page -----------------------------------------------------------------------------


def cell(text):
    """The text of a cell: what stands in its backticks, the bars unescaped."""
    plain = re.fullmatch(r"(`+) ?(.*?) ?\1", text.strip())
    return (plain[2] if plain else text.strip()).replace("\\|", "|")


def shown(row):
    first = next(
        iter(row[key] for key in ("text", "path", "facet", "guard", "short") if key in row)
    )
    for key in ("gives", "long", "error", "bad"):
        if key in row:
            value = row[key]
            break
    return first, value if isinstance(value, str) and key != "gives" else json.dumps(
        value, ensure_ascii=False
    )


def examples():
    text = PAGE.read_text(encoding="utf-8")
    for name, table in re.findall(r"<!-- corpus: (\w+) -->\n\n((?:\|.*\n)+)", text):
        for line in table.splitlines()[2:]:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield name, tuple(map(cell, cells))


def test_the_page_has_examples_of_every_part():
    assert {name for name, _ in examples()} == set(CORPUS)


@pytest.mark.parametrize(("name", "example"), list(examples()), ids=lambda one: str(one)[:60])
def test_an_example_of_the_page_is_in_the_corpus(name, example):
    assert example in {shown(row) for row in CORPUS[name]}
