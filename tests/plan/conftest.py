"""Whole plans for property tests: any shape of graph, any text in every place that takes text."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from planbench.plan.model import ExecutionPlan

IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_\-]{0,8}", fullmatch=True)
HOSTILE = [
    "'''", '"""', "\\", "\\'", "'\n", "${x}", "{artifacts.nobody.rows}", "{{artifacts.x}}",
    "__import__('os').abort()", "'); raise SystemExit(1) #", "{item}", "{index}", "\u2028", "\x00",
    '"]; click n0 call alert()', "<script>alert(1)</script>", "%%{init: {}}%%", "end", "`x`", "#quot;",
    "\ud7ff", "ﬂ°°9¶ß", "no", "1e3", " lead", "trail ", "é", "{params.p}", "x{params.q}y", "-->", "\r\n",
]  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.lists(st.sampled_from(HOSTILE), max_size=3).map("".join),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
PATHS = st.sampled_from(["rows[]", "a.b", "[]", "rows[].kind", "a[0].b", "x-1", "not a path", "[", "{params.p}"])  # fmt: skip
GUARDS = st.sampled_from(
    [
        "true",
        "ctx.errors == 0",
        'ctx.artifacts["{0}"].n > 0',
        'ctx.artifacts["{0}"].n >= 1 && ctx.status["{0}"] != "error"',
        '!(ctx.status["{0}"] == "ok") || ctx.artifacts["{0}"].kind == \'x\'',
        'size(ctx.artifacts["{0}"].by) > 2',
        'ctx.artifacts["{0}"].n > {params.p}',
        "no guard at all",
    ]
)


def values(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=6,
    )


def _facets(draw):
    names = st.dictionaries(TEXTS, PATHS, max_size=2)
    found = {kind: draw(names) for kind in ("paths", "counts", "group_counts")}
    if draw(st.booleans()):
        found["max_group_keys"] = draw(st.integers(1, 200) | st.just("{params.p}"))
    return found


def _for_each(draw, source):
    found = {"source": f"{{artifacts.{source}}}"}
    options = {
        "select": PATHS,
        "as": st.sampled_from(["item", "region", "_x"]),
        "max_items": st.integers(1, 100_000),
        "max_concurrency": st.integers(1, 64) | st.just("{params.p}"),
        "on_item_error": st.sampled_from(["collect", "fail", "skip"]),
        "max_failed": st.sampled_from([0, 3, "5%", "100%"]),
        "skip_existing": st.booleans(),
    }
    return found | {name: draw(value) for name, value in options.items() if draw(st.booleans())}


def _node(draw, node_id, needs, place):
    record = {"id": node_id}
    leaves = [SCALARS]
    if needs:
        leaves.append(st.sampled_from([f"{{artifacts.{n}}}" for n in needs]))
        leaves.append(st.sampled_from([f"of {{nodes.{n}.output}} and" for n in needs]))
        leaves.append(st.sampled_from([f"{{nodes.{n}.output}}" for n in needs]))
    if needs and draw(st.integers(0, 3)) == 0:
        record["for_each"] = _for_each(draw, draw(st.sampled_from(needs)))
        name = record["for_each"].get("as", "item")
        leaves.append(st.sampled_from([f"{{{name}}}", "{item.a.b}", f"{{{name}.x}}", "{index}"]))
        record["store_as"] = f"{draw(TEXTS.filter(str.isprintable))}.{place}.{{index}}"
    if draw(st.integers(0, 5)) == 0:
        record |= {"type": "delegate", "instruction": draw(TEXTS) or "?"}
        if draw(st.booleans()):
            record["tools"] = draw(st.lists(TEXTS, max_size=2))
    else:
        record["tool"] = draw(TEXTS) or "t"
    keys = TEXTS | st.sampled_from(["when", "id", "as_", "class", "limit", "self", "tool", "args"])
    record["args"] = draw(st.dictionaries(keys, values(st.one_of(leaves)), max_size=3))
    if needs or draw(st.booleans()):
        record["depends_on"] = draw(st.permutations(needs))
    options = {
        "when": GUARDS.map(lambda text: text.replace("{0}", needs[0] if needs else node_id)),
        "timeout": st.floats(0.001, 1e6) | st.just("{params.p}"),
        "retry": st.fixed_dictionaries(
            {}, optional={"max_attempts": st.integers(1, 10), "backoff_seconds": st.floats(0, 60)}
        ),
        "description": TEXTS,
        "approve": st.booleans() | TEXTS,
        "cache": st.booleans() | st.floats(1, 9),
    }
    record |= {name: draw(value) for name, value in options.items() if draw(st.integers(0, 3)) == 0}
    if draw(st.booleans()):
        record["facets"] = _facets(draw)
    return record


def _params(draw):
    found = {}
    for name in draw(st.lists(st.sampled_from(["p", "date", "class", "p-q", "é"]), unique=True)):
        spec = {}
        if draw(st.booleans()):
            spec["type"] = draw(st.sampled_from(["str", "int", "date", "list", "datetime"]))
        if draw(st.booleans()):
            spec["default"] = draw(values(SCALARS))
        if draw(st.booleans()):
            spec["required"] = draw(st.booleans() | st.none())
        if draw(st.booleans()):
            spec |= {"description": draw(TEXTS), "choices": draw(st.lists(SCALARS, max_size=2))}
        found[name] = spec
    return found


@st.composite
def any_plan(draw, max_nodes=6):
    ids = draw(st.lists(IDS, min_size=1, max_size=max_nodes, unique=True))
    nodes = []
    for place, node_id in enumerate(ids):
        before = st.sampled_from(ids[:place]) if place else st.nothing()
        needs = draw(st.lists(before, max_size=3, unique=True)) if place else []
        nodes.append(_node(draw, node_id, needs, place))
    plan = {
        "name": draw(TEXTS.filter(bool)),
        "objective": draw(TEXTS),
        "nodes": draw(st.permutations(nodes)),
    }
    if draw(st.booleans()):
        plan["metadata"] = {"max_parallel_tasks": draw(st.integers(1, 128)), "checkpoint": False}
    if draw(st.booleans()):
        plan["params"] = _params(draw)
    if draw(st.booleans()):
        plan["provenance"] = {"objective": draw(TEXTS)}
    return ExecutionPlan.model_validate(plan)


@pytest.fixture(scope="session")
def plans():
    """Any valid plan."""
    return any_plan()
