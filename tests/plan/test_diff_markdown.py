from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from planbench.plan.diff import diff_plans
from planbench.plan.diff_markdown import code, mermaid
from planbench.plan.model import ExecutionPlan, PlanNode

EVIL = '"]; click n0 call alert()\n```\n<script>alert(1)</script> @all #1 | **x** [a](javascript:b) ``x'


def plan(*nodes, **fields):
    made = [PlanNode.model_validate({"tool": "t", **node}) for node in nodes]
    return ExecutionPlan(**{"name": "p", "objective": "o", "nodes": made, **fields})


def outside_of_code(text):
    """All text that a reader of Markdown takes for more than code."""
    found = []
    for token in MarkdownIt("commonmark", {"html": True}).parse(text):
        if token.type == "html_block":
            found.append(token.content)
        if token.type == "inline":
            found += [
                child.content if child.type == "text" else f"<{child.type}>"
                for child in token.children
                if child.type not in {"code_inline", "softbreak"}
            ]
    return "".join(found)


def assert_harmless(text):
    """Nothing but our own words stands outside of code, and the graph is of our own making."""
    words = re.sub(r"<strong_(open|close)>", "", outside_of_code(text))
    assert re.fullmatch(r"[A-Za-z0-9 ,:.'()]*", words), words
    for block in re.findall(r"```mermaid\n(.*?)\n```", text, re.DOTALL):
        assert_own_graph(block)


def assert_own_graph(block):
    label = r'\["(?:[^\W_]|[ _.,\-]|\N{MIDDLE DOT}|#\d+;|<br/>)*"\]'
    line = rf"flowchart LR|  n\d+{label}|  n\d+ (?:-->|==>|-\.->) n\d+|  classDef \w+ [\w#:,\- ]+|  class [n\d,]+ \w+"
    assert all(re.fullmatch(line, one) for one in block.split("\n"))


def test_a_pull_request_gets_a_graph_and_a_list():
    a = plan({"id": "a", "args": {"x": 1}}, {"id": "b", "tool": "u", "depends_on": ["a"]})
    b = plan({"id": "a", "args": {"x": 2}}, {"id": "c", "tool": "v", "depends_on": ["a"]})
    assert (
        diff_plans(a, b).to_markdown()
        == """\
### `p`: 1 node added, 1 node removed, 1 node changed

```mermaid
flowchart LR
  n0["a<br/>tool t<br/>CHANGED"]
  n1["b<br/>tool u<br/>REMOVED"]
  n2["c<br/>tool v<br/>ADDED"]
  n0 ==> n2
  n0 -.-> n1
  classDef added fill:#e8f6ec,stroke:#2f7d4f,stroke-width:3px,color:#1f2733
  class n2 added
  classDef removed fill:#fbeeee,stroke:#b53b3b,stroke-dasharray:5 4,color:#1f2733
  class n1 removed
  classDef changed fill:#fdf5e3,stroke:#a8720f,stroke-width:2px,color:#1f2733
  class n0 changed
```

- **added** `c`, after `a`: `calls v`
- **removed** `b`: `calls u`
- **changed** `a`
  - `args.x`: `1` to `2`
"""
    )


def test_what_does_not_differ_needs_no_graph():
    assert (
        diff_plans(plan({"id": "a"}), plan({"id": "a"})).to_markdown()
        == "### `p`: no difference\n\n"
    )


def test_every_change_of_a_renamed_and_moved_plan_is_said():
    text = diff_plans(
        plan({"id": "a"}, {"id": "b", "tool": "u"}, {"id": "c"}),
        plan({"id": "c"}, {"id": "a"}, {"id": "bb", "tool": "u", "depends_on": []}, name="q"),
    ).to_markdown()
    assert "### `p -> q`: " in text
    assert "- **renamed** `b` to `bb`" in text
    assert "- **moved** `c`: it stands `first` now" in text
    assert '- **changed** the plan\'s `name`: `"p"` to `"q"`' in text
    assert "b is now bb" in text


@pytest.mark.parametrize("text", [EVIL, "`", "``", " ` ", "a`b``c", "", "  ", "x\u202ey", "\x00"])
def test_a_code_span_holds_any_text_and_nothing_leaves_it(text):
    tokens = MarkdownIt().parse(f"- a {code(text)} b")
    inline = next(token for token in tokens if token.type == "inline")
    kinds = [child.type for child in inline.children if child.content.strip()]
    assert kinds == (["text", "code_inline", "text"] if text.strip() else ["text"])


def test_text_of_users_is_no_markup_wherever_it_stands():
    a = plan({"id": "a", "tool": EVIL}, name=EVIL)
    b = plan(
        {"id": "a", "tool": f"{EVIL}2", "args": {EVIL: EVIL}, "description": EVIL},
        {"id": "b", "tool": EVIL, "instruction": None},
        {"id": "c", "type": "delegate", "tool": None, "instruction": "x", "tools": [EVIL]},
        name="`",
        objective=EVIL,
    )
    assert_harmless(diff_plans(a, b).to_markdown())
    assert_harmless(diff_plans(b, a).to_markdown())


def test_of_a_very_large_diff_the_first_lines_are_shown_and_no_graph():
    nodes = [{"id": f"n{i}"} for i in range(400)]
    changed = [{**node, "args": {"x": 1}} for node in nodes]
    text = diff_plans(plan(*nodes), plan(*changed)).to_markdown()
    assert "The graph of 400 nodes is too large to be shown here." in text
    assert text.endswith("- and 600 more lines\n")
    assert len(text) < 65_000


def test_nodes_far_from_the_changes_are_counted_and_not_drawn():
    nodes = [{"id": f"n{i}", "depends_on": [f"n{i - 1}"] if i else []} for i in range(100)]
    changed = [*nodes[:-1], {**nodes[-1], "args": {"x": 1}}]
    diff = diff_plans(plan(*nodes), plan(*changed))
    assert "98 nodes away from the changes are not shown." in diff.to_markdown()
    assert mermaid(diff.graph.around_changes(60)).count("tool") == 2


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_text_of_any_plan_becomes_markup(data, plans):
    diff = diff_plans(data.draw(plans), data.draw(plans))
    assert_harmless(diff.to_markdown())
    assert_own_graph(mermaid(diff.graph))
