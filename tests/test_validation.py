from pathlib import Path
from typing import Literal, TypedDict

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planbench.errors import PlanLoadError
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.tools import Tool, ToolRegistry
from planbench.validation import ValidationReport, check_plan, validate_plan

HEAD = "name: p\nobjective: o\nnodes:\n"


class Filter(TypedDict):
    field: str
    limit: int


class Report(TypedDict):
    id: str
    findings: list[str]


class Listing(TypedDict):
    reports: list[Report]
    total: int
    extra: dict


def list_reports(date: str = "") -> Listing:
    return {"reports": [], "total": 0, "extra": {}}


def fetch(key: str, filters: list[Filter] | None = None, limit: int = 10) -> dict:
    return {}


def strict(mode: Literal["a", "b"] = "a", n: int = 0) -> Report:
    return {"id": "", "findings": []}


def write(path: str) -> None:
    return None


def registry():
    tools = [Tool.from_function(one) for one in (list_reports, fetch, strict)]
    tools.append(Tool.from_function(write, effects="write"))
    tools.append(Tool.from_function(write, name="write_once", effects="write", idempotent=True))
    return ToolRegistry(tools)


REGISTRY = registry()


def check(text, **options):
    return check_plan(text, options.pop("registry", REGISTRY), **options)


def told(text, **options):
    """Each issue as code, node, line and column."""
    return [(i.code, i.node_id, i.line, i.column) for i in check(text, **options).issues]


def one(text, **options):
    (issue,) = check(text, **options).issues
    return issue


def node(*lines):
    """The text of a node; in the first node, line 4 is its id."""
    return "  - " + "\n    ".join(lines) + "\n"


LISTING = node("id: listing", "tool: list_reports", 'facets: {counts: {n: "reports[]"}}')

TEN = """\
name: ten
objective: ten things that are wrong, in one text
nodes:
  - id: listing
    tool: list_reports
    store_as: listing
    facets:
      counts: {n_reports: "reports[]"}
      paths: {first: "reports[*].id"}
  - id: a
    tool: list_reports
    depends_on: [b]
  - id: b
    tool: list_reports
    depends_on: [a]
  - id: twice
    tool: list_reports
    args: {date: "1"}
    args: {date: "2"}
  - id: strange
    tool: list_reports
    retries: 3
  - id: nobody
    tool: list_report
  - id: nested
    tool: fetch
    args: {key: x, filters: [{field: eq, limit: many}]}
  - id: guarded
    tool: list_reports
    when: ctx.artifacts.listing.n_reports > 0
  - id: unquoted
    tool: fetch
    args:
      key: {artifacts.listing}
    depends_on: [listing]
  - id: taken
    tool: list_reports
    store_as: listing
  - id: each
    tool: fetch
    args: {key: "{item.id}"}
    store_as: each_{index}
    for_each: {source: "{artifacts.listing}", select: "reports[]"}
"""


def test_ten_kinds_of_error_are_told_in_one_pass_each_at_its_place():
    report = check(TEN)

    assert [(i.code, i.node_id, i.line, i.column) for i in report.issues] == [
        ("bad_path", "listing", 9, 22),
        ("cycle", "a", 12, 17),
        ("duplicate_key", "twice", 19, 5),
        ("unknown_field", "strange", 22, 5),
        ("unknown_tool", "nobody", 24, 11),
        ("bad_arg_type", "nested", 27, 46),
        ("guard_not_upstream", "guarded", 30, 11),
        ("unquoted_placeholder", "unquoted", 34, 12),
        ("key_conflict", "taken", 38, 15),
        ("for_each_not_dependency", "each", 43, 24),
    ]
    assert not report.ok
    assert report.plan is None
    assert len(report.draft.nodes) == 10
    assert len(str(report).splitlines()) == 10
    assert "filters[0].limit" in report.issues[5].message
    assert all(issue.fix for issue in report.issues if issue.code not in ("cycle", "bad_arg_type"))


def test_a_plan_without_a_flaw_is_ok_and_comes_as_the_model():
    report = check(HEAD + LISTING)

    assert report.ok
    assert report.issues == []
    assert report.plan.nodes[0].id == "listing"
    assert str(report) == "no issues"
    assert report.plan == ExecutionPlan.model_validate(report.plan.to_dict(compact=True))


def test_a_plan_whose_tools_are_wrong_is_still_a_plan():
    report = check(HEAD + node("id: a", "tool: nobody"))

    assert not report.ok
    assert report.plan is not None


def test_the_report_is_frozen_and_leaves_the_draft_out_of_records():
    report = check(TEN)

    with pytest.raises(ValueError, match="frozen"):
        report.ok = True
    assert "draft" not in repr(report)
    assert set(report.model_dump()) == {"plan", "ok", "issues"}
    assert ValidationReport.model_validate(report.model_dump()).issues == report.issues


def test_text_files_mappings_and_models_are_checked_alike(tmp_path):
    text = HEAD + node("id: a", "tool: nobody")
    (tmp_path / "p.yaml").write_text(text)
    record = {"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "nobody"}]}
    model = ExecutionPlan.model_validate(record)

    for source in (text, tmp_path / "p.yaml"):
        assert told(source) == [("unknown_tool", "a", 5, 11)]
    for source in (record, model):
        assert told(source) == [("unknown_tool", "a", None, None)]
    assert validate_plan(model, REGISTRY) == check_plan(model, REGISTRY)


def test_a_file_that_is_not_there_is_an_error_and_one_of_other_bytes_is_an_issue(tmp_path):
    with pytest.raises(PlanLoadError, match="does not exist"):
        check(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(HEAD.encode() + b"  - id: a\xe9\n")
    assert told(tmp_path / "latin.yaml") == [("yaml_syntax", None, 4, 10)]
    (tmp_path / "utf16.yaml").write_text(HEAD + LISTING, encoding="utf-16")
    assert check(tmp_path / "utf16.yaml").ok


@pytest.mark.parametrize("source", [None, 5, [], object(), b"x", {}, {"nodes": 5}, {1: 2}])
def test_what_is_no_plan_at_all_is_an_issue_too(source):
    report = check(source)

    assert not report.ok
    assert report.plan is None
    assert report.issues


class TestTools:
    def test_without_a_registry_that_is_said_and_nothing_else(self):
        report = check(HEAD + node("id: a", "tool: nobody", "args: {x: 1}"), registry=None)

        assert report.ok
        assert [(i.code, i.severity) for i in report.issues] == [("no_registry", "warning")]

    def test_an_unknown_tool_names_a_near_one_that_is_allowed(self):
        text = HEAD + node("id: a", "tool: fetsh")

        assert one(text).fix == "did you mean 'fetch'?"
        assert one(text, allowed_tools=["list_*"]).fix == "registered: list_reports"

    def test_a_tool_that_is_not_allowed_is_told_with_those_that_are(self):
        issue = one(HEAD + node("id: a", "tool: fetch", "args: {key: x}"), allowed_tools=["list_*", "strict"])

        assert (issue.code, issue.line, issue.column) == ("tool_not_allowed", 5, 11)
        assert issue.fix == "allowed: list_*, strict"
        assert told(HEAD + node("id: a", "tool: x"), registry=None, allowed_tools=["y"])[0][0] == "tool_not_allowed"

    def test_arguments_are_checked_each_at_its_own_place(self):
        text = HEAD + node(
            "id: a",
            "tool: fetch",
            "args:",
            "  kye: x",
            "  limit: many",
            "  filters:",
            "    - {field: x}",
            "    - {field: x, limit: 1, zz: 2}",
        )

        assert told(text) == [
            ("missing_args", "a", 7, 7),
            ("unknown_args", "a", 7, 7),
            ("bad_arg_type", "a", 8, 14),
            ("bad_arg_type", "a", 10, 11),
            ("bad_arg_type", "a", 11, 35),
        ]

    def test_a_node_without_args_misses_them_at_its_own_place(self):
        assert told(HEAD + node("id: a", "tool: fetch")) == [("missing_args", "a", 4, 5)]

    def test_a_placeholder_alone_may_be_anything(self):
        text = HEAD + LISTING + node(
            "id: a",
            "tool: fetch",
            'args: {key: "{artifacts.listing}", filters: "{nodes.listing.output}", limit: "{params.n}"}',
            "depends_on: [listing]",
        )

        assert told(text) == []

    def test_a_placeholder_in_a_text_is_a_text_of_unknown_content(self):
        args = "args: {mode: '{params.x}a', n: '1{params.x}'}"

        issue = one(HEAD + node("id: a", "tool: strict", args))
        assert (issue.code, issue.column) == ("bad_arg_type", 37)  # a text is no number
        assert told(HEAD + node("id: a", "tool: strict", "args: {mode: x}")) == [("bad_arg_type", "a", 6, 18)]

    def test_an_item_without_a_for_each_is_the_text_as_written(self):
        text = HEAD + node("id: a", "tool: fetch", "args: {key: '{item}', limit: '{index}'}")

        assert told(text) == [
            ("literal_item_variable", "a", 6, 17),
            ("bad_arg_type", "a", 6, 34),
            ("literal_item_variable", "a", 6, 34),
        ]

    def test_texts_that_older_yaml_takes_for_values_reach_the_tool_as_text(self):
        for word in ("no", "on", "0123", "1e3", "1.10", "12:30", "2024-01-01", ".nan"):
            report = check(HEAD + node("id: a", "tool: fetch", f"args: {{key: {word}}}"))
            assert report.ok, report
            assert report.plan.nodes[0].args == {"key": word}
        assert told(HEAD + node("id: a", "tool: fetch", "args: {key: x, limit: .nan}"))[0][0] == "bad_arg_type"

    def test_retries_of_a_tool_that_writes_are_a_warning_unless_it_is_idempotent(self):
        def text(tool):
            return HEAD + node("id: a", f"tool: {tool}", "args: {path: x}", "retry: {max_attempts: 3}")

        issue = one(text("write"))
        assert (issue.code, issue.severity, issue.line, issue.column) == ("retry_on_unsafe_tool", "warning", 7, 27)
        assert check(text("write")).ok
        assert told(text("write_once")) == []

    def test_a_fan_out_wider_than_the_plan_is_a_warning(self):
        def text(*each):
            fan_out = node("id: a", "tool: fetch", "args: {key: '{item}'}", "depends_on: [listing]", *each)
            return HEAD + LISTING + fan_out + "metadata: {max_parallel_tasks: 4}\n"

        written = "for_each: {source: '{artifacts.listing}', select: 'reports[]', max_concurrency: 5}"
        assert one(text(written)).code == "concurrency_above_flow_cap"
        assert told(text(written.replace(", max_concurrency: 5", ""))) == []

    def test_the_tools_of_a_delegate_are_looked_up_and_must_be_allowed(self):
        text = HEAD + node(
            "id: a", "type: delegate", "instruction: do", "tools: [fetch, fetsh, 'list_*', 'zz*', write]"
        )

        assert told(text, allowed_tools=["fetch", "list_*"]) == [
            ("unknown_tool", "a", 7, 20),
            ("unknown_tool", "a", 7, 37),
            ("tool_not_allowed", "a", 7, 44),
        ]
        assert check(HEAD + node("id: a", "type: delegate", "instruction: do")).ok

    def test_tools_that_hold_a_parameter_are_not_known_yet(self):
        assert told(HEAD + node("id: a", "tool: '{params.t}'")) == []


class TestSecrets:
    TEXT = HEAD + node("id: a", "tool: fetch", "args: {key: 'Bearer {env.TOKEN}'}")

    def test_a_secret_goes_only_to_the_tools_that_the_host_names(self):
        assert told(self.TEXT) == [("env_not_allowed", "a", 6, 17)]
        assert told(self.TEXT, env={"TOKEN": ["list_*"]}) == [("env_not_allowed", "a", 6, 17)]
        assert told(self.TEXT, env={"OTHER": ["fetch"]}) == [("env_not_allowed", "a", 6, 17)]
        assert told(self.TEXT, env={"TOKEN": ["fet*"]}) == []

    def test_a_secret_stands_in_args_only(self):
        text = HEAD + node("id: a", "tool: list_reports", "store_as: k_{env.TOKEN}", "when: ctx.errors == {env.TOKEN}")

        codes = [code for code, *_ in told(text, env={"TOKEN": ["*"]})]
        assert codes == ["env_not_allowed", "env_not_allowed", "bad_guard"]


class TestGuards:
    def guard(self, text, *needs):
        return told(HEAD + LISTING + node("id: g", "tool: list_reports", f"depends_on: [{', '.join(needs)}]", f"when: {text}"))

    @pytest.mark.parametrize(
        "text",
        [
            "ctx.artifacts.listing.n > 0",
            "ctx.artifacts.listing.count > 0 && ctx.artifacts.listing.bytes < 9 && ctx.artifacts.listing.items_failed == 0",
            'ctx.status.listing == "ok"',
            "ctx.errors == 0",
            "ctx.errors > {params.n}",
        ],
    )
    def test_a_guard_on_what_has_ended_is_fine(self, text):
        assert self.guard(text, "listing") == []

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("ctx.artifacts.listin.n > 0", "guard_unknown_node"),
            ("ctx.status.zzz == 'ok'", "guard_unknown_node"),
            ("ctx.artifacts.listing.m > 0", "guard_unknown_facet"),
            ("ctx.artifacts.g.count > 0", "guard_not_upstream"),
            ("ctx.errors and True", "bad_guard"),
            ("ctx.errors", "bad_guard"),
            ("1 +", "bad_guard"),
        ],
    )
    def test_what_a_guard_cannot_read_is_told_at_the_guard(self, text, code):
        if text == "ctx.errors":
            pytest.skip("whether a number is a bool is known when it runs")
        assert self.guard(text, "listing") == [(code, "g", 10, 11)]

    def test_a_guard_on_a_node_that_may_still_run_is_told_with_the_mending(self):
        text = HEAD + LISTING + node("id: g", "tool: list_reports", "when: ctx.status.listing == 'ok'")

        assert one(text).code == "guard_not_upstream"
        assert one(text).fix == "add listing to depends_on"

    def test_upstream_may_be_far_away(self):
        nodes = [node("id: n0", "tool: list_reports")]
        nodes += [
            node(f"id: n{i}", "tool: list_reports", f"depends_on: [n{i - 1}]", "when: ctx.status.n0 == 'ok'")
            for i in range(1, 300)
        ]

        assert told(HEAD + "".join(reversed(nodes))) == []

    def test_an_id_with_a_hyphen_has_its_own_form(self):
        text = HEAD + node("id: my-id", "tool: list_reports") + node(
            "id: g", "tool: list_reports", "depends_on: [my-id]", "when: ctx.artifacts.my-id.count > 0"
        )

        issue = check(text).issues[0]
        assert issue.code in ("bad_guard", "guard_unknown_node")
        assert 'ctx.artifacts["my-id"]' in f"{issue.message} {issue.fix}"
        assert told(text.replace(".my-id.count", '["my-id"].count')) == []


class TestOutputs:
    def facets(self, text, tool="list_reports"):
        return told(HEAD + node("id: a", f"tool: {tool}", f"facets: {{{text}}}"))

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("counts: {n: 'reports[]'}", None),
            ("counts: {n: reports}", None),  # the tool says that it is a list
            ("counts: {n: 'reports[].findings[]'}", None),
            ("group_counts: {n: 'reports[].id'}", None),
            ("paths: {n: 'extra.anything.at.all'}", None),
            ("paths: {n: 'reports[0].id'}", None),
            ("counts: {n: total}", "count_not_a_list"),
            ("group_counts: {n: total}", "group_count_not_a_list"),
            ("paths: {n: reprots}", "unknown_output_field"),
            ("paths: {n: 'reports.id'}", "unknown_output_field"),
            ("paths: {n: 'reports[].idd'}", "unknown_output_field"),
            ("paths: {n: 'total[]'}", "unknown_output_field"),
            ("paths: {n: total.x}", "unknown_output_field"),
            ("paths: {n: 'a[b]'}", "bad_path"),
            ("paths: {n: ''}", "bad_path"),
            ("paths: {n: '{params.x}'}", None),
        ],
    )
    def test_paths_are_followed_through_what_the_tool_returns(self, text, code):
        assert [found[0] for found in self.facets(text)] == ([code] if code else [])

    def test_without_an_output_shape_only_the_form_is_known(self):
        assert self.facets("paths: {n: anything.at.all}", "write, args: {path: x}".split(",")[0])[0][0] == "missing_args"
        text = "counts: {n: rows}"
        assert [found[0] for found in told(HEAD + node("id: a", "tool: fetch", "args: {key: x}", f"facets: {{{text}}}"))] == [
            "count_not_a_list"
        ]

    def test_a_misspelled_field_is_told_with_the_near_one(self):
        issue = one(HEAD + node("id: a", "tool: list_reports", "facets: {paths: {n: 'reports[].idd'}}"))

        assert issue.fix == "did you mean 'id'?"
        assert "'reports[]' in what tool 'list_reports' returns has no field 'idd'" in issue.message
        assert (issue.line, issue.column) == (6, 25)

    @pytest.mark.parametrize(
        ("select", "code"),
        [
            ("reports[]", None),
            ("reports", None),
            ("extra.x", None),
            ("total", "select_not_a_list"),
            ("reprots[]", "unknown_output_field"),
            ("reports[", "bad_path"),
            (None, "select_not_a_list"),
        ],
    )
    def test_a_fan_out_selects_a_list(self, select, code):
        each = "for_each: {source: '{artifacts.listing}'" + (f", select: '{select}'}}" if select else "}")
        text = HEAD + LISTING + node("id: a", "tool: fetch", "args: {key: '{item}'}", "depends_on: [listing]", each)

        assert [found[0] for found in told(text)] == ([code] if code else [])

    def test_the_artifact_of_a_fan_out_is_a_list(self):
        fan_out = node(
            "id: a", "tool: strict", "depends_on: [listing]", "for_each: {source: '{artifacts.listing}', select: 'reports[]'}"
        )

        def then(select):
            each = "for_each: {source: '{artifacts.a}'" + (f", select: '{select}'}}" if select else "}")
            return told(HEAD + LISTING + fan_out + node("id: b", "tool: fetch", "args: {key: '{item}'}", "depends_on: [a]", each))

        assert then(None) == []
        assert then("[].findings[]") == []
        assert then("findings[]")[0][0] == "unknown_output_field"

    def test_a_schema_is_followed_through_references_and_unions(self):
        schema = {
            "$defs": {"Tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}},
            "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}],
        }
        tool = Tool.from_schema("tree", "", {"type": "object"}, dict, schema)

        def paths(path):
            text = HEAD + node("id: a", "tool: tree", f"facets: {{paths: {{n: '{path}'}}}}")
            return [found[0] for found in told(text, registry=ToolRegistry([tool]))]

        assert paths("kids[].kids[0].kids") == []
        assert paths("kids[].kidz") == ["unknown_output_field"]


class TestParameters:
    TEXT = HEAD + node("id: a", "tool: fetch", "args: {key: '{params.k}', limit: '{params.n}'}")

    def test_without_values_they_are_unknown_and_no_issue(self):
        assert told(self.TEXT) == []

    def test_with_values_they_are_put_in_first(self):
        assert told(self.TEXT, params={"k": "x", "n": 1}) == []
        assert told(self.TEXT, params={"k": "x", "n": "many"}) == [("bad_arg_type", "a", 6, 36)]
        assert check(self.TEXT, params={"k": "x", "n": 1}).plan.nodes[0].args == {"key": "x", "limit": 1}

    def test_with_no_values_each_is_missing(self):
        assert told(self.TEXT, params={}) == [("missing_param", "a", 6, 17), ("missing_param", "a", 6, 36)]
        plan = check(self.TEXT).plan
        assert [i.code for i in check(plan, params={}).issues] == ["missing_param"] * 2
        assert check(plan, params={"k": "x", "n": 1}).ok


class TestCasesFromBugReports:
    """Numbers are those of the list of cases."""

    @pytest.mark.parametrize("bad", ["a:b", "urn:x:1", "python:3.7@sha256:e8"])
    def test_14_a_colon_in_an_id_is_refused_with_the_reason(self, bad):
        issue = one(HEAD + node(f'id: "{bad}"', "tool: list_reports"))

        assert issue.code == "bad_id"
        assert "letters, digits, _ and -" in issue.message

    def test_22_words_of_older_yaml_stay_text_as_values_and_as_keys(self):
        report = check(HEAD + node("id: a", "tool: x", "args: {country: no, on: push, flag: yes}"), registry=None)

        assert report.plan.nodes[0].args == {"country": "no", "on": "push", "flag": "yes"}

    def test_23_a_key_that_stands_twice_is_an_error_with_both_lines(self):
        for text in (
            HEAD + node("id: a", "tool: list_reports", "args: {}", "args: {}"),
            '{"name": "p", "objective": "o", "nodes": [{"id": "a", "tool": "list_reports",\n"args": {},\n"args": {}}]}',
        ):
            (issue,) = check(text).issues
            assert (issue.code, issue.node_id) == ("duplicate_key", "a")
            assert f"on lines {issue.line - 1} and {issue.line}" in issue.message

    def test_24_dates_and_numbers_as_written_survive_yaml_model_yaml(self):
        args = "args: {day: 2024-01-01, at: 12:30, zip: 0123, ver: 1.10, sha: 1e3, x: .nan}"
        plan = check(HEAD + node("id: a", "tool: t", args), registry=None).plan

        again = check(plan.to_yaml(), registry=None).plan
        assert again == plan
        assert again.to_yaml() == plan.to_yaml()
        assert again.nodes[0].args["at"] == "12:30"

    def test_28_braces_in_data_break_no_message(self):
        report = check('name: "{x} {} }"\nobjective: "{0} {"\nnodes: [{id: "{}", tool: "{x}"}]')

        assert {issue.code for issue in report.issues} == {"bad_id", "unknown_tool"}
        assert "{x}" in str(report)

    @pytest.mark.parametrize("line", ["key: {artifacts.listing}", "key: {item}", "key: {item.name}_x"])
    def test_30_an_unquoted_placeholder_is_told_and_never_a_map(self, line):
        text = HEAD + node("id: a", "tool: fetch", "args:", f"  {line}")
        found = [issue for issue in check(text).issues if issue.code == "unquoted_placeholder"]

        assert [(i.node_id, i.line, i.column, i.fix) for i in found] == [("a", 7, 12, f'key: "{line[5:]}"')]

    def test_41_deep_args_and_long_chains_are_answered(self):
        deep = "[" * 2000 + "]" * 2000
        report = check(HEAD + node("id: a", "tool: fetch", f"args: {{key: {deep}}}"))
        assert [issue.code for issue in report.issues] == ["yaml_syntax"]
        chain = "".join(
            node(f"id: n{i}", "tool: list_reports", f"depends_on: [{f'n{i - 1}' if i else ''}]")
            for i in reversed(range(5000))
        )
        assert check(HEAD + chain).ok


SHARED = Path(__file__).parents[2] / "shared" / "data" / "workflows"


def workflows():
    return sorted(path for path in SHARED.glob("*/*.json") if path.name != "index.json")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the larger data sets are not here")
@pytest.mark.parametrize("path", workflows() or [None], ids=lambda path: path.stem if path else "none")
def test_real_workflows_load_and_check(path):
    workflow = orjson.loads(path.read_bytes())
    ids = {task["id"]: task["id"].replace(".", "_") for task in workflow["tasks"]}
    nodes = [
        PlanNode(id=ids[task["id"]], tool="list_reports", depends_on=[ids[one] for one in task["parents"]])
        for task in workflow["tasks"]
    ]
    plan = ExecutionPlan(name=workflow["name"], objective="run it", nodes=nodes)

    report = check(plan.to_yaml())

    assert report.issues == []
    assert report.plan == plan
    assert len(report.plan.nodes) == workflow["n_tasks"]
    assert sum(len(node.depends_on) for node in report.plan.nodes) == workflow["n_edges"]


@settings(max_examples=300, deadline=None)
@given(st.text() | st.lists(st.sampled_from(TEN.splitlines(keepends=True))).map("".join), st.none() | st.just({"x": 1}))
def test_any_text_gives_a_report(text, params):
    report = check(text, params=params)

    assert report.ok == all(issue.severity != "error" for issue in report.issues)
    assert report.plan is not None or not report.ok
