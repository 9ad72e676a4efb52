from __future__ import annotations

from planbench.cli.findings import SHOWN_EDGES, counted, inferred
from planbench.validation import check_plan


def chain(length):
    nodes = [
        f'  - {{id: n{i}, tool: t, args: {{x: "{{artifacts.n{i - 1}}}"}}}}'
        for i in range(1, length)
    ]
    return check_plan("\n".join(["name: p\nobjective: o\nnodes:\n  - {id: n0, tool: t}", *nodes]))


def test_a_node_that_waits_for_what_it_reads_is_named_with_all_of_it():
    report = check_plan(
        "name: p\nobjective: o\nnodes:\n"
        "  - {id: a, tool: t}\n  - {id: b, tool: t}\n"
        '  - {id: c, tool: t, args: {x: "{artifacts.a} {artifacts.b}"}}\n'
        '  - {id: d, tool: t, depends_on: [a], args: {x: "{artifacts.a}"}}\n'
    )
    assert list(inferred(report)) == ["node 'c' waits for a, b, which it reads [inferred]"]


def test_of_very_many_the_first_are_named_and_the_rest_counted():
    lines = list(inferred(chain(1002)))
    assert len(lines) == SHOWN_EDGES + 1
    assert lines[-1] == "and 981 more nodes; --json names them all"
    assert len(list(inferred(chain(SHOWN_EDGES + 1)))) == SHOWN_EDGES


def test_a_check_is_summed_up_in_a_few_words():
    assert counted(chain(1)) == "ok, 1 node, 1 warning"
    assert counted(check_plan("name: p")) == "2 errors"
