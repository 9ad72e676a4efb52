"""Measure how reading, checking and compiling a plan grow with its size.

    python benchmarks/language.py                        # all steps, the table on stdout
    python benchmarks/language.py -s check --sizes 10000 20000

Each step gets a fresh process in which the sizes take turns. A figure is the time per
node by that of the smallest size, so 1 is linear. Only these ratios mean anything.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from planbench import ToolRegistry, check_plan, load_plan
from planbench.plan.collector import paused_collector
from planbench.plan.document import read_document
from planbench.plan.edits import rename_node
from planbench.plan.forms import format_plan
from planbench.plan.script import to_script
from planbench.runtime.compiled import CompiledPlan

SIZES = [10_000, 20_000, 40_000, 100_000]
STEPS = {
    "read": "the text as a tree with the place of each value",
    "check": "read, structure, tools and their arguments, guards, paths",
    "distinct": "the same, each guard of a shape of its own",
    "load": "read and checked as far as that goes without tools",
    "compile": "guards, paths, templates and facets made ready to run",
    "yaml": "written as YAML",
    "json": "written as JSON",
    "format": "the text in the short form, comments kept",
    "rename": "one node renamed in the text",
    "script": "as a script for asyncio alone",
}


def text(size: int, *, distinct: bool = False) -> str:
    """A chain in which each node has a guard, facets and a reference of its own."""
    lines = ["name: big", "objective: to be measured", "nodes:"]
    for n in range(size):
        fields = [f"id: n{n}, tool: t"]
        if n:
            before = f"n{n - 1}"
            more = f" + {n}" if distinct else ""
            fields.append(f"depends_on: [{before}], when: ctx.artifacts.{before}.n{more} > {n}")
            fields.append(f'args: {{value: {n}, x: "{{artifacts.{before}}}"}}')
        else:
            fields.append("args: {value: 0}")
        fields.append(f'facets: {{n: "count(rows[])", by: "groups(k{n}[])"}}')
        lines.append(f"  - {{{', '.join(fields)}}}")
    return "\n".join(lines) + "\n"


def t(value: int, x: dict | None = None) -> dict:
    """Do nothing: no tool is called here."""
    return {}


def read(written: str):
    """Read as checks and loads do, without the garbage collector."""
    with paused_collector():
        return read_document(written)


def prepare(name: str, size: int):
    """Give the work of a step as a function, ready to be timed."""
    registry = ToolRegistry([t])
    written = text(size, distinct=name == "distinct")
    if name in ("check", "distinct") and not check_plan(written, registry).ok:
        raise RuntimeError(f"{size} nodes are more than a text may hold")
    works = {
        "read": lambda: read(written),
        "check": lambda: check_plan(written, registry),
        "distinct": lambda: check_plan(written, registry),
        "load": lambda: load_plan(written),
        "format": lambda: format_plan(written),
        "rename": lambda: rename_node(written, "n7", "seven"),
    }
    if name in works:
        return works[name]
    plan = load_plan(written)
    return {
        "compile": lambda: CompiledPlan(plan, registry),
        "yaml": plan.to_yaml,
        "json": plan.to_json,
        "script": lambda: to_script(plan),
    }[name]


def child(name: str, sizes: list[int], repeats: int) -> dict:
    """Time the sizes in turns; of each the median per node, in microseconds."""
    works = {size: prepare(name, size) for size in sizes}
    gc.freeze()  # what was prepared is no part of what is measured
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(repeats + 1):
        for size, work in works.items():
            gc.collect()
            begin = time.process_time()
            kept = work()
            if turn or not repeats:
                times[size].append(time.process_time() - begin)
            del kept
    return {str(size): statistics.median(found) / size * 1e6 for size, found in times.items()}


def row(name: str, found: dict) -> str:
    """Write a step's line of the table."""
    first = next(iter(found.values()))
    cells = [f"{cost / first:.2f}" for cost in found.values()]
    return f"| {name} | {STEPS[name]} | {' | '.join(cells)} | {first:.0f} |"


def main() -> None:
    """Run the steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-s", "--step", action="append", choices=list(STEPS))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("RESULT " + json.dumps(child(args.child, args.sizes, args.repeats)), flush=True)
        os._exit(0)  # there is nothing to take down, and it would take long
    sizes = [f"{size:,}" for size in args.sizes]
    print(f"| step | the work | {' | '.join(sizes)} | us a node |")
    print("|---|---|" + "---|" * (len(sizes) + 1))
    table = {}
    for name in args.step or STEPS:
        command = [sys.executable, __file__, "--child", name, "--repeats", str(args.repeats)]
        command += ["--sizes", *map(str, args.sizes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            sys.exit(f"{name} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        table[name] = json.loads(lines[-1].removeprefix("RESULT "))
        print(row(name, table[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
