"""Workflows of other systems as plans, as far as they go: the proof that the language holds them.

Each function takes one record of the data set and gives a Mapped; NotAPlan says why there is none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from planbench.importers.imported import plain_id
from planbench.plan.conditions import dotted
from planbench.plan.document import Document
from planbench.plan.draft import draft
from planbench.plan.placeholders import escape


class NotAPlan(Exception):
    pass


@dataclass
class Mapped:
    name: str
    nodes: list[dict[str, Any]] = field(default_factory=list)
    params: set[str] = field(default_factory=set)
    metadata: dict[str, Any] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    helpers: int = 0

    def add(self, node_id: str, tool: str, needs=(), **fields: Any) -> dict[str, Any]:
        node = {"id": node_id, "tool": tool, "depends_on": list(dict.fromkeys(needs)), **fields}
        self.nodes.append(node)
        return node

    def items(self, node_id: str, items: Any, needs=()) -> str:
        """Add a node that gives a literal list, for a fan-out over it."""
        self.helpers += 1
        return self.add(f"{node_id}_items", "give", needs, args={"value": items})["id"]

    def plan(self):
        record = {"name": self.name, "objective": "", "nodes": self.nodes}
        if self.params:
            record["params"] = {name: {"required": False} for name in sorted(self.params)}
        if self.metadata:
            record["metadata"] = self.metadata
        made = draft(Document(record))
        assert made.plan is not None, made.issues
        return made.plan


# -- Argo Workflows -------------------------------------------------------------------

_TASK = re.compile(r"\{\{(?:tasks|steps)\.([\w-]+)\.outputs\.result\}\}")
_CONDITION = re.compile(r"\{\{(?:tasks|steps)\.([\w-]+)\.outputs\.result\}\} (==|!=|<|>) ([\w.]+)")


def argo(record):
    made = Mapped(record["name"])
    templates = {template["name"]: template for template in record["templates"]}
    if record.get("onExit"):
        made.left_out["onExit: nothing runs after the end, and after a failure"] += 1
    for parameter in (record.get("arguments") or {}).get("parameters", []):
        made.params.add(plain_id(parameter["name"]).replace("-", "_"))
    start = record["entrypoint"] or next(
        (n for n, t in templates.items() if "dag" in t or "steps" in t), None
    )
    if start not in templates:
        raise NotAPlan("its entry point is a template elsewhere")
    _Argo(made, templates).expand(templates[start], "", (), {}, (start,))
    used = {m for node in made.nodes for m in re.findall(r"\{params\.(\w+)\}", json.dumps(node))}
    made.params = used
    return made


class _Argo:
    def __init__(self, made, templates):
        self.made = made
        self.templates = templates

    def expand(self, template, prefix, needs, inputs, seen):
        """Add the nodes of a template; gives the ids of those that end it."""
        if template.get("outputs") and ("dag" in template or "steps" in template):
            self.made.left_out["outputs of the whole: the results of the nodes are all kept"] += 1
        if template.get("parallelism"):
            if prefix:
                self.made.left_out["parallelism of a part"] += 1
            else:
                self.made.metadata["max_parallel_tasks"] = template["parallelism"]
        if "dag" in template:
            tasks = template["dag"]["tasks"]
            groups = [(task, self._needed(task)) for task in tasks]
        elif "steps" in template:
            groups, before = [], []
            for group in template["steps"]:
                groups += [(step, list(before)) for step in group]
                before = [step["name"] for step in group]
        else:
            node = self.made.add(prefix or plain_id(template["name"]), template["name"], needs)
            self._arguments(node, {}, inputs, {})
            return [node["id"]]
        ends = {}
        order = {task["name"]: wanted for task, wanted in groups}
        left = {task["name"]: task for task, _ in groups}
        while left:
            ready = [name for name in left if all(need in ends for need in order[name])]
            if not ready:
                raise NotAPlan("a dependency names no task")
            for name in ready:
                before = [end for need in order[name] for end in ends[need]] or list(needs)
                ends[name] = self._task(left.pop(name), prefix, before, inputs, seen, ends)
        last = set(order) - {need for wanted in order.values() for need in wanted}
        return [end for name in order if name in last for end in ends[name]]

    def _needed(self, task):
        if "dependencies" in task:
            return task["dependencies"]
        found = []
        for part in filter(None, re.split(r"\s*&&\s*", task.get("depends", ""))):
            name, _, state = part.strip("() ").partition(".")
            if state and state != "Succeeded":
                self.made.left_out[
                    "depends on a failure: what waits for a failed node is blocked"
                ] += 1
            found.append(name)
        return found

    def _task(self, task, prefix, needs, inputs, seen, ends):
        made = self.made
        name = plain_id(f"{prefix}_{task['name']}" if prefix else task["name"])
        name = name if all(n["id"] != name for n in made.nodes) else f"{name}_{len(made.nodes)}"
        target = task.get("template") or ""
        if "templateRef" in task:
            target = "{name}/{template}".format(**task["templateRef"])
        if "inline" in task:
            target = "/".join(task["inline"])
        if target in seen:
            raise NotAPlan("it calls itself: a plan has no loops")
        inner = self.templates.get(target, {"name": target})
        spread = [k for k in ("withItems", "withParam", "withSequence") if k in task]
        if task.get("continueOn"):
            made.left_out["continueOn: what waits for a failed node is blocked"] += 1
        given = self._given(task, inputs, ends)
        if "dag" in inner or "steps" in inner:
            if spread:
                raise NotAPlan("it fans out over several steps at once: a fan-out calls one tool")
            if "when" in task:
                made.left_out["a guard over several steps at once"] += 1
            return self.expand(inner, name, needs, given, (*seen, target))
        node = {"needs": list(needs)}
        if spread:
            node["for_each"] = self._source(name, task, node["needs"], inputs, ends)
        new = made.add(name, target, node.pop("needs"), **node)
        self._arguments(new, task, given, ends)
        if "when" in task:
            self._guard(new, task["when"], ends)
        return [name]

    def _given(self, task, inputs, ends):
        found = {}
        for parameter in (task.get("arguments") or {}).get("parameters", []):
            found[parameter["name"]] = self._text(parameter.get("value", ""), inputs, ends)
        return found

    def _arguments(self, node, task, given, ends):
        if (task.get("arguments") or {}).get("artifacts"):
            self.made.left_out["files in a store: results are passed as values"] += 1
        if given:
            node["args"] = given
        read = re.findall(r"\{artifacts\.([\w-]+)\}", json.dumps(given))
        node["depends_on"] = list(dict.fromkeys([*node["depends_on"], *read]))

    def _text(self, text, inputs, ends):
        def put(match):
            name = match.group(1)
            if name == "item" or name.startswith("item."):
                return f"{{{name}}}"
            if name.startswith("workflow.parameters."):
                return f"{{params.{name.split('.')[2].replace('-', '_')}}}"
            if name.startswith("inputs.parameters."):
                return str(inputs.get(name.split(".")[2], ""))
            task = _TASK.fullmatch(match.group())
            if task and task.group(1) in ends:
                return f"{{artifacts.{ends[task.group(1)][-1]}}}"
            self.made.left_out[f"{{{{{name}}}}}: it is of the cluster"] += 1
            return match.group()

        return re.sub(r"\{\{([^{}]+)\}\}", put, str(text))

    def _source(self, name, task, needs, inputs, ends):
        if "withItems" in task:
            source = self.made.items(name, task["withItems"], needs)
        elif "withSequence" in task:
            source = self.made.items(name, _sequence(task["withSequence"]), needs)
        else:
            text = self._text(task["withParam"], inputs, ends)
            match = re.fullmatch(r"\{artifacts\.([\w-]+)\}", text)
            if match:
                source = match.group(1)
            else:
                value = text if text.startswith("{") else json.loads(text)
                source = self.made.items(name, value, needs)
        needs[:] = list(dict.fromkeys([*needs, source]))
        return {"source": f"{{artifacts.{source}}}"}

    def _guard(self, node, when, ends):
        match = _CONDITION.fullmatch(when)
        if when in {"false", "true"}:
            node["when"] = when
        elif match and match.group(1) in ends:
            source = ends[match.group(1)][-1]
            for other in self.made.nodes:
                if other["id"] == source:
                    other.setdefault("facets", {}).setdefault("paths", {})["result"] = "result"
            value = match.group(3)
            value = value if value.isdecimal() else json.dumps(value)
            node["when"] = f"{dotted(('artifacts', source, 'result'))} {match.group(2)} {value}"
        elif "item" in when:
            self.made.left_out["a guard for each item: a guard decides about the node"] += 1
        else:
            self.made.left_out["a guard over the state of the cluster"] += 1


def _sequence(spec):
    if "count" in spec:
        return list(range(int(spec["count"])))
    numbers = range(int(spec["start"]), int(spec["end"]) + 1)
    return [spec.get("format", "%d") % number for number in numbers]


# -- GitHub Actions -------------------------------------------------------------------

_NEEDS = re.compile(r"needs\.([\w-]+)\.outputs\.([\w-]+) (==|!=) ('[^'\\]*')")
_RESULT = re.compile(r"needs\.([\w-]+)\.result (==|!=) '(success|failure|skipped)'")
_STATES = {"success": "ok", "failure": "error", "skipped": "skipped"}


def github(record):
    made = Mapped(record["name"])
    by_id = {}
    for job in record["jobs"]:
        fields = {}
        if job["timeout_minutes"]:
            fields["timeout"] = job["timeout_minutes"] * 60
        needs = [plain_id(need) for need in job["needs"]]
        node_id = plain_id(job["id"])
        if job["matrix"]:
            source = made.items(node_id, _combinations(job["matrix"]), needs)
            needs = [*needs, source]
            each = {"source": f"{{artifacts.{source}}}"}
            each["on_item_error"] = "collect" if job["fail_fast"] is False else "fail"
            if job["max_parallel"]:
                each["max_concurrency"] = job["max_parallel"]
            fields |= {"for_each": each, "args": {"matrix": "{item}"}}
        if job["continue_on_error"]:
            made.left_out["continue-on-error: what waits for a failed node is blocked"] += 1
        by_id[job["id"]] = made.add(node_id, job["uses"] or job["id"], needs, **fields)
    for job in record["jobs"]:
        if job["if"]:
            _github_guard(made, by_id, job)
    return made


def _combinations(matrix):
    if not isinstance(matrix, dict):
        raise NotAPlan("its matrix is computed")
    rows = [{}]
    for axis, values in matrix.items():
        if axis not in {"include", "exclude"}:
            rows = [{**row, axis: value} for row in rows for value in values]
    return [*(row for row in rows if row), *matrix.get("include", [])]


def _github_guard(made, by_id, job):
    text = job["if"].strip().removeprefix("${{").removesuffix("}}").strip()

    def output(match):
        source, name, sign, value = match.groups()
        facet = name.replace("-", "_")
        facets = by_id[source].setdefault("facets", {}).setdefault("paths", {})
        facets[facet] = name
        node = by_id[source]["id"]
        return f"{dotted(('artifacts', node, facet))} {sign} {json.dumps(value[1:-1])}"

    def result(match):
        source, sign, state = match.groups()
        return f"{dotted(('status', by_id[source]['id']))} {sign} {json.dumps(_STATES[state])}"

    guard = _RESULT.sub(result, _NEEDS.sub(output, text))
    rest = re.sub(r'ctx[\w.\["\]-]* (?:==|!=) "[^"]*"|&&|\|\||[()\s]', "", guard)
    if not rest:
        by_id[job["id"]]["when"] = guard
    elif "always()" in text or "cancelled()" in text:
        made.left_out["always(): what waits for a failed node is blocked"] += 1
    else:
        made.left_out["if: over the event that started it; a parameter could say it"] += 1


# -- Galaxy ---------------------------------------------------------------------------


def galaxy(record):
    made = Mapped(record["name"])
    _Galaxy(made).expand(record["steps"], "", {}, None)
    return made


class _Galaxy:
    def __init__(self, made):
        self.made = made

    def expand(self, steps, prefix, given, guard):
        """Add the nodes of steps; gives what each output of the whole is."""
        values: dict[tuple[int, str | None], str] = {}
        outputs = {}
        kinds = {step["id"]: step for step in steps}
        for step in steps:
            label = step["label"] or step["name"] or "step"
            name = plain_id(f"{prefix}{label}")[:60] + f"_{step['id']}"
            if step["type"].endswith("_input"):
                is_whole = step["type"] == "data_collection_input" and not prefix
                values[step["id"], None] = given.get(label) or self._input(name, is_whole)
                continue
            inputs = {}
            for target, sources in step["connections"].items():
                found = [self._value(values, kinds, s["step"], s["output"]) for s in sources]
                inputs[target] = found[0] if len(found) == 1 else found
            condition = inputs.pop("when", None) if step["when"] else None
            if condition is None:
                condition = guard
            if step["type"] == "subworkflow":
                inner = self.expand(step["subworkflow"], f"{name}_", inputs, condition)
                for output, value in inner.items():
                    values[step["id"], output] = value
                outputs |= {name: inner[name] for name in step["workflow_outputs"] if name in inner}
                continue
            args = {} if step.get("args_omitted") else {"state": _escaped(step.get("args") or {})}
            if step.get("args_omitted"):
                self.made.left_out["settings that the data set leaves out"] += 1
            args |= inputs
            node = self.made.add(name, step["tool"], _reads(args), args=args)
            self._guard(node, condition)
            for output in step["outputs"] or [None]:
                values[step["id"], output] = f"{{artifacts.{name}}}"
            values[step["id"], None] = f"{{artifacts.{name}}}"
            for output in step["workflow_outputs"]:
                outputs[output] = f"{{artifacts.{name}}}"
        return outputs

    def _input(self, name, is_collection):
        if is_collection:
            reason = "a tool over a collection: where it fans out is not written down"
            self.made.left_out[reason] += 1
        param = re.sub(r"\W", "_", name, flags=re.ASCII)
        self.made.params.add(param)
        return f"{{params.{param}}}"

    def _value(self, values, kinds, step, output):
        """Give the placeholder of an output; one of several is picked by a node of its own."""
        found = values.get((step, output), values.get((step, None)))
        if found is None:
            raise NotAPlan("a subworkflow's output is made by none of its steps")
        several = len(kinds[step]["outputs"]) > 1
        if not several or not found.startswith("{artifacts."):
            return found
        source = found[len("{artifacts.") : -1]
        picked = f"{source}_{plain_id(output)}"
        if all(node["id"] != picked for node in self.made.nodes):
            self.made.helpers += 1
            args = {"value": found, "fields": [output]}
            self.made.add(picked, "pick", [source], args=args)
        return f"{{artifacts.{picked}}}"

    def _guard(self, node, condition):
        if condition is None:
            return
        if condition.startswith("{params."):
            node["when"] = condition
            return
        source = condition[len("{artifacts.") : -1]
        for other in self.made.nodes:
            if other["id"] == source:
                other.setdefault("facets", {}).setdefault("paths", {})["yes"] = "boolean_param"
        node["when"] = f"{dotted(('artifacts', source, 'yes'))} == true"
        node["depends_on"] = list(dict.fromkeys([*node["depends_on"], source]))


def _reads(args):
    return re.findall(r"(?<!\{)\{artifacts\.([\w-]+)\}", json.dumps(args, ensure_ascii=False))


def _escaped(value):
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    return [_escaped(inner) for inner in value] if isinstance(value, list) else value


# -- plans that models wrote ----------------------------------------------------------

_NODE = re.compile(r"<node-(\d+)>")


def taskbench(record):
    made = Mapped(str(record["id"]))
    tasks = record["task_nodes"]
    ids = [f"{plain_id(task['task'])}_{place}" for place, task in enumerate(tasks)]
    needs = {node_id: {} for node_id in ids}
    for link in record["task_links"]:
        ends = [
            next((ids[i] for i, t in enumerate(tasks) if t["task"] == link.get(end)), None)
            for end in ("source", "target")
        ]
        if None in ends:
            made.left_out["a link to a task that is not there"] += 1
        elif ends[0] == ends[1]:
            made.left_out["a link of a task to itself"] += 1
        else:
            needs[ends[1]][ends[0]] = None
    for node_id, task in zip(ids, tasks, strict=True):
        args = {}
        for place, argument in enumerate(task.get("arguments") or []):
            name, value = f"argument_{place + 1}", argument
            if isinstance(argument, dict):
                name, value = str(argument.get("name", name)), argument.get("value")
            match = _NODE.fullmatch(value) if isinstance(value, str) else None
            if match and int(match.group(1)) < len(ids) and ids[int(match.group(1))] != node_id:
                source = ids[int(match.group(1))]
                needs[node_id][source] = None
                value = f"{{artifacts.{source}}}"
            elif match:
                made.left_out["a reference to itself, or to a task that is not there"] += 1
            args[name] = value if match else _escaped(value)
        made.add(node_id, task["task"], needs[node_id], args=args)
    _no_cycle(made)
    return made


def restbench(record):
    return taskbench(
        {**record, "task_nodes": [{**t, "arguments": []} for t in record["task_nodes"]]}
    )


def _no_cycle(made):
    left = {node["id"]: set(node["depends_on"]) for node in made.nodes}
    while ready := [node for node, needs in left.items() if not needs & left.keys()]:
        for node in ready:
            del left[node]
    if left:
        raise NotAPlan("its links form a cycle")
    for node in made.nodes:
        node["depends_on"] = list(node["depends_on"])
