"""Whatever a text holds: a plan, PlanInvalid or PlanLoadError, soon and in little memory."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planbench import ExecutionPlan, PlanInvalid, PlanLoadError, check_plan, load_plan
from planbench.plan.allowance import OF_A_BRACE
from planbench.plan.document import Limits
from planbench.plan.guards import compile_guard
from planbench.plan.structure import MAX_PROBLEMS
from planbench.planner import parse_plan

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
SECONDS = 8.0  # ten times what the slowest takes on a machine with nothing else to do
MEGABYTES = 200
MAX_SHOWN = 100_000
VALUES = Limits().max_values - 1000
HEAD = "name: p\nobjective: o\nnodes:\n"

# -- real files, mutated ------------------------------------------------------------------


@functools.cache
def real_texts():
    """Plans of this repository in each form, and what other systems call a plan."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("plans/*.yaml"))]
    texts += [load_plan(text).to_json() for text in texts]
    texts += [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("tests/data/*.json"))]
    for path in sorted(SHARED.glob("plans/*/*.jsonl")):
        texts += path.read_text(encoding="utf-8").splitlines()[:5]
    answers = SHARED / "planner_outputs.jsonl"
    if answers.exists():
        lines = answers.read_text(encoding="utf-8").splitlines()
        texts += [json.loads(line)["raw"] for line in lines]
    return [text[:4000] for text in texts]


PIECES = st.sampled_from(
    ["{", "}", "[", "]", "{{", "&a ", "*a", "<<: *a", "!!float ", "!x", "---\n", "\t", "\x00", "\ud800",
     "\u2028", "\ufeff", "'", '"', "|", ">", "#", ": ", "- ", "? ", "\r", "\n", "\n  ", "1e999", "9" * 5000,
     "{artifacts.x}", "{params.date}", "{item}", "when: !x", "when: 'ctx.errors > '", "a.b && c", "[]",
     "count(", "nodes:", "depends_on: [", "null", "\\u0000", "\\", "%YAML 1.1\n", "plan: ", "\x7f", "é" * 300]
)  # fmt: skip


@st.composite
def mutated(draw):
    text = draw(st.sampled_from(real_texts()))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 60))
        kind = draw(st.sampled_from(["cut", "put", "swap", "repeat", "end", "move"]))
        piece = text[at : at + length]
        if kind == "cut":
            text = text[:at] + text[at + length :]
        elif kind == "put":
            text = text[:at] + draw(PIECES) + text[at:]
        elif kind == "swap":
            text = text[:at] + draw(PIECES) + text[at + length :]
        elif kind == "repeat":
            text = text[:at] + piece * draw(st.integers(2, 20)) + text[at:]
        elif kind == "end":
            text = text[:at]
        else:
            rest = text[:at] + text[at + length :]
            to = draw(st.integers(0, len(rest)))
            text = rest[:to] + piece + rest[to:]
    return text


def loaded(text, params=None):
    try:
        plan = load_plan(text, params=params)
    except PlanLoadError as error:
        assert not isinstance(error, PlanInvalid) or any(  # noqa: PT017 - either way is right
            issue.severity == "error" and (issue.line or 1) >= 1 for issue in error.issues
        )
        return None
    assert isinstance(plan, ExecutionPlan)
    return plan


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=mutated(), params=st.none() | st.just({"date": "2026-08-06"}))
def test_a_real_file_with_mistakes_is_a_plan_or_is_refused(text, params):
    plan = loaded(text, params)

    report = check_plan(text, [], params=params)
    assert report.plan is None or report.draft is not None
    if plan is not None:
        assert load_plan(plan.to_yaml()) == plan


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=mutated() | st.text(st.characters(exclude_categories=[]), max_size=200))
def test_an_answer_of_a_model_is_a_plan_or_is_refused(text):
    try:
        plan = parse_plan(text)
    except PlanInvalid as error:
        assert error.issues  # noqa: PT017 - either way is right
    else:
        assert isinstance(plan, ExecutionPlan)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-16")))
def test_any_bytes_of_a_file_are_a_plan_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("files") / "p.yaml"
    path.write_bytes(data)

    loaded(path)


# -- texts that are made to hurt ------------------------------------------------------------


def flow(*nodes):
    return HEAD + "".join(f"  - {{id: n{i}, tool: t, {node}}}\n" for i, node in enumerate(nodes))


def block(lines):
    return f"{HEAD}  - id: n0\n    tool: t\n{lines}\n"


def as_json(args):
    return (
        f'{{"name": "p", "objective": "o", "nodes": [{{"id": "a", "tool": "t", "args": {args}}}]}}'
    )


def numbered(count, form, separator=", "):
    return separator.join(form.format(i) for i in range(count))


def bomb():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(levels) + f"\n{flow('args: {x: *a11}')}"


def merges():
    levels = [f"a0: &a0 {{{numbered(1000, 'k{0}: 1')}}}"]
    levels += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 50)}]}}" for i in range(1, 50)]
    return "\n".join(levels) + f"\n{flow('args: {}')}"


def declared(spec, reads=""):
    return f"name: p\nobjective: o\nparams: {{{spec}}}\nnodes:\n  - {{id: a, tool: t, {reads}}}\n"


NASTY = {
    # nesting
    "flow lists": lambda: flow("args: {x: " + "[" * 1_000_000),
    "flow maps": lambda: flow("args: {x: " + "{a: " * 300_000),
    "dashes": lambda: HEAD + "- " * 500_000,
    "question marks": lambda: HEAD + "? " * 500_000,
    "indented keys": lambda: block("    args:\n" + "".join(" " * (6 + i) + "a:\n" for i in range(2000))),
    "json lists": lambda: '{"name": "p", "nodes": ' + "[" * 2_000_000,
    "json maps": lambda: '{"a":' * 1_000_000,
    "closed json lists": lambda: as_json("[" * 200_000 + "]" * 200_000),
    # anchors
    "alias bomb": bomb,
    "merge bomb": merges,
    "repeated alias": lambda: f"x: &x [{'1, ' * 1000}]\n" + flow("args: {x: [" + "*x, " * 900 + "]}"),
    "many anchors": lambda: flow("args: {x: [" + numbered(100_000, "&a{0} {0}") + "]}"),
    "nested anchors": lambda: flow("args: {x: " + numbered(90, "&a{0} [", "") + "]" * 90 + "}"),
    # long scalars
    "a plain text": lambda: flow("args: {x: " + "x" * 5_000_000 + "}"),
    "a quoted text": lambda: flow('args: {x: "' + "x" * 5_000_000 + '"}'),
    "a literal block": lambda: block("    args:\n      x: |\n" + "        line\n" * 300_000),
    "an open quote": lambda: flow('args: {x: "' + "x" * 5_000_000),
    "an open quote of json": lambda: '{"name": "' + "x" * 5_000_000,
    "escapes": lambda: as_json('{"x": "' + "\\u0041" * 500_000 + '"}'),
    "a wrong escape": lambda: as_json('{"x": "' + "\\n" * 500_000 + '\\q"}'),
    "at the limit": lambda: f"name: p\nobjective: '{'x' * 19_999_900}'\nnodes: [{{id: a, tool: t}}]\n",
    "over the limit": lambda: "x" * 20_000_001,
    "blank lines": lambda: "\n" * 5_000_000,
    "comments": lambda: HEAD + "#" * 5_000_000 + "\n" + "# x\n" * 300_000 + "  - {id: a, tool: t}\n",
    # numbers
    "digits": lambda: flow("args: {x: " + "9" * 2_000_000 + "}"),
    "digits of json": lambda: as_json('{"x": ' + "9" * 2_000_000 + "}"),
    "long integers": lambda: as_json('{"x": [' + ", ".join(["9" * 4000] * 500) + "]}"),
    "a fraction": lambda: as_json('{"x": 0.' + "1" * 2_000_000 + "}"),
    "an exponent": lambda: as_json('{"x": 1e' + "1" * 1_000_000 + "}"),
    "options past all numbers": lambda: flow(
        "timeout: 1e999, retry: {max_attempts: 99999999999999999999, backoff_seconds: 1e400}, "
        f"for_each: {{source: '{{artifacts.n0}}', max_items: {'9' * 3999}, max_failed: '{'9' * 100_000}%'}}"
    ),
    # many of something
    "keys": lambda: flow(f"args: {{{numbered(100_000, 'k{0}: {0}')}}}"),
    "a key repeated": lambda: flow("args: {" + "k: 1, " * 100_000 + "}"),
    "a key of json repeated": lambda: as_json("{" + ", ".join(['"k": 1'] * 100_000) + "}"),
    "documents": lambda: (HEAD + "---\n") * 20_000,
    "tabs": lambda: HEAD + "\t- id: a\n" * 50_000,
    "directives": lambda: "%YAML 1.1\n" * 100_000,
    "control characters": lambda: HEAD + "\x07" * 1_000_000,
    "nodes that are none": lambda: '{"name": "p", "objective": "o", "nodes": [' + "1," * 300_000 + "1]}",
    "empty nodes": lambda: '{"name": "p", "objective": "o", "nodes": [' + "{}," * 50_000 + "{}]}",
    "one node repeated": lambda: HEAD + "  - {id: a, tool: t}\n" * 20_000,
    "unknown fields": lambda: flow(numbered(100_000, "f{0}: 1")),
    "unknown fields of the plan": lambda: numbered(100_000, "k{0}: 1", "\n") + "\n" + flow("args: {}"),
    "one dependency repeated": lambda: flow("depends_on: [" + "n0, " * 200_000 + "]"),
    "unknown dependencies": lambda: flow(f"depends_on: [{numbered(100_000, 'x{0}')}]"),
    "dependencies that are none": lambda: flow("depends_on: [" + "{}, " * 100_000 + "]"),
    "facets that are none": lambda: flow(f"facets: {{paths: {{{numbered(100_000, 'k{0}: 1')}}}}}"),
    "flat facets that are none": lambda: flow(f"facets: {{a: x, {numbered(100_000, 'k{0}: sum(x)')}}}"),
    "a long cycle": lambda: HEAD + "".join(
        f"  - {{id: n{i}, tool: t, depends_on: [n{(i + 1) % 10_000}]}}\n" for i in range(10_000)
    ),
    "a dense graph": lambda: HEAD + "".join(
        f"  - {{id: n{i}, tool: t, depends_on: [{', '.join(f'n{j}' for j in range(300) if j != i)}]}}\n"
        for i in range(300)
    ),
    "parameters": lambda: declared(
        numbered(10_000, "p{0}: {{}}"), f"args: {{x: '{numbered(10_000, '{{params.q{0}}}', '')}'}}"
    ),
    "wrong parameters": lambda: declared(numbered(10_000, "p{0}: {{type: wat, wat: 1}}")),
    # what invites to look again and again
    "unquoted placeholders": lambda: block("    args:\n" + numbered(5_000, "      k{0}: {{artifacts.x{0}}}", "\n")),
    "unquoted texts": lambda: block("    args:\n" + numbered(2_000, "      k{0}: {{item.x}}_y{0}", "\n")),
    "a line of placeholders": lambda: flow("args: {x: [" + "{artifacts.x}, " * 20_000 + "]}"),
    "spaces in what is mended": lambda: block(
        numbered(300, "    description{0}: {{item.x}}" + " " * 1900 + "_y", "\n")
    ),
    "tags": lambda: HEAD + numbered(5_000, "  - id: a{0}\n    tool: t\n    when: !x", "\n"),
    "placeholders": lambda: flow("args: {x: '" + "{artifacts.n1}" * 50_000 + "'}", "args: {}"),
    "braces": lambda: flow("args: {x: '" + "{" * 1_000_000 + "'}"),
    "half placeholders": lambda: flow("args: {x: '" + "{artifacts." * 200_000 + "'}"),
    "fields of an item": lambda: flow("for_each: n1, args: {x: '{item" + ".a" * 500_000 + "}'}", "args: {}"),
    "near names": lambda: HEAD
    + "".join(f"  - {{id: {'ab' * 110}{i}, tool: t}}\n" for i in range(2000))
    + "".join(f"  - {{id: c{i}, tool: t, depends_on: [{'ba' * 100}x{i}]}}\n" for i in range(60)),
    "a key of digits": lambda: flow(
        "args: {}", "for_each: n0, store_as: 'x{index}'", f"store_as: 'x{'1' * 499}'"
    ),
    "an id of digits": lambda: flow("args: {}", "for_each: n0").replace("id: n0", f"id: n{'1' * 100_000}"),
    "a long id": lambda: f"{HEAD}  - {{id: {'a' * 1_000_000}, tool: t}}\n",
    "spaces in a facet": lambda: flow("facets: {x: 'count(" + " " * 50_000 + "x'}"),
    "brackets in a facet": lambda: flow("facets: {x: 'count(" + " ) " * 50_000 + "x'}"),
    "a long path": lambda: flow("facets: {paths: {x: '" + "a." * 500_000 + "'}}"),
    "a long source": lambda: flow("for_each: '" + "a." * 200_000 + "'"),
    "a long guard": lambda: flow("when: '" + "n0.b && " * 200_000 + "'"),
    "quotes in a guard": lambda: block("    when: |-\n      n0.b " + '"""' * 100_000),
    "escaped quotes in a guard": lambda: block("    when: |-\n      n0.b " + '"\\' * 4_900),
    "brackets in a guard": lambda: flow("when: '" + "(" * 9_990 + "'"),
    "indexes in a guard": lambda: flow("when: 'ctx.artifacts" + "[0" * 3_000 + "'"),
    "macros in a guard": lambda: flow("when: '" + "a(x, " * 1_900 + "'"),
    "fields in a guard": lambda: flow("when: 'n1" + ".a" * 4_900 + "'", "args: {}"),
    "terms in a guard": lambda: flow("when: 'ctx.errors > 0" + " || ctx.errors > 1" * 500 + "'"),
    "parameters in a guard": lambda: declared("x: {default: '1'}", f"when: '{'{params.x}' * 100_000}'"),
    # as much as is read
    "values up to the limit": lambda: flow(f"args: {{x: [{'1, ' * VALUES}]}}"),
    "values of json past the limit": lambda: as_json("[" + "{}," * 6_000_000 + "1]"),
    "keys past the limit": lambda: flow(f"args: {{{numbered(1_400_000, 'k{0}: 1')}}}"),
    "placeholders up to the limit": lambda: flow(f"args: {{x: '{'{artifacts.no}' * (VALUES // OF_A_BRACE)}'}}"),
    "items up to the limit": lambda: flow(f"args: {{x: '{'{item.a}' * (VALUES // OF_A_BRACE)}'}}"),
    "placeholders repeated by aliases": lambda: (
        "x: &x ['" + "{artifacts.n0}" * 1000 + "']\n" + flow("args: {x: [" + "*x , " * 100_000 + "]}")
    ),
    "maps that are no nodes": lambda: f"{HEAD.rstrip()} [{'{a: [1, 1, 1, 1, 1]}, ' * 800_000}]",
    "wrong requirements": lambda: f"requires: {{{numbered(240_000, 'k{0}: 1')}}}\n{flow('args: {}')}",
    "long guards": lambda: flow(*(f"when: '{'ctx.errors > 0 || ' * 500}false'" for _ in range(2000))),
    "guards that no shape fits": lambda: flow(
        *(f"when: 'ctx.errors + {i} > x{i}'" for i in range(2_000))
    ),
}  # fmt: skip


def measured(make):
    """Load a text in a process of its own: what came out, the seconds of the processor, megabytes."""
    import resource

    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
        return usage.ru_utime + usage.ru_stime, kilobytes / 1024

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        sys.settrace(None)  # what measures the coverage takes more time than what is measured
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # a stall ends here
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            text = make()
            seconds, megabytes = used()
            params = {} if "\nparams:" in text[:100] else None
            try:
                load_plan(text, params=params)
                kind = "plan"
            except PlanInvalid as error:
                few = len(error.issues) <= 3 * MAX_PROBLEMS and len(str(error)) < MAX_SHOWN
                kind = "PlanInvalid" if few else "PlanInvalid without end"
            except PlanLoadError:
                kind = "PlanLoadError"
            after, most = used()
            said = json.dumps([kind, after - seconds, most - megabytes])
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent tells it
            said = json.dumps([f"{type(error).__name__}: {str(error)[:200]}", 0, 0])
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else ["it was ended: a stall", 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the limits are those of a forked process")
@pytest.mark.parametrize("name", NASTY)
def test_a_text_that_is_made_to_hurt_is_answered_soon_and_in_little_memory(name):
    compile_guard("ctx.errors > 0")  # CEL is loaded before the memory is measured
    kind, seconds, megabytes = measured(NASTY[name])

    assert kind in {"plan", "PlanInvalid", "PlanLoadError"}
    assert seconds < SECONDS
    assert megabytes < MEGABYTES
