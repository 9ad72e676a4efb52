"""Measure what a working memory with a budget takes: 500 results of 5 MB in 200 MB.

    python benchmarks/spill.py                  # all kinds of values, the table on stdout
    python benchmarks/spill.py -w frames --count 100

Each kind gets a fresh process that watches its own memory: the peak while all values
are stored and read back, over what the process took before. Every value is compared
with what was stored, in its type and in each of its cells.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from planbench import ToolRegistry, WorkingMemory, load_plan, run_sync

MEGABYTE = 1_000_000
KINDS = ("bytes", "text", "records", "frames", "engine")
GOALS = dict.fromkeys(("bytes", "text", "frames", "engine"), "budget + 100 MB")
"""None for records: many small objects take two to four times what is measured of them."""


def made_bytes(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def made_text(number: int, size: int) -> str:
    return random.Random(number).randbytes(size // 2).hex()


def made_records(number: int, size: int) -> list[dict]:
    noise = made_text(number, 512)
    count = size // 220  # as the memory measures them
    return [
        {"uid": f"{number}-{i}", "severity": i % 5, "score": i / 7, "text": noise[i % 400 :][:64]}
        for i in range(count)
    ]


def made_frame(number: int, size: int):
    np, pd = (importlib.import_module(name) for name in ("numpy", "pandas"))
    rows = size // 40
    chance = np.random.default_rng(number)
    return pd.DataFrame(
        {
            "n": chance.integers(0, 1 << 40, rows),
            "x": chance.random(rows),
            "when": pd.Timestamp("2026-08-06") + pd.to_timedelta(np.arange(rows), unit="s"),
            "word": pd.Series(chance.choice(["high", "medium", "low"], rows), dtype="str"),
        }
    )


MADE = {
    "bytes": made_bytes,
    "text": made_text,
    "records": made_records,
    "frames": made_frame,
    "engine": made_bytes,
}


def equal(value, wanted) -> bool:
    if type(value) is not type(wanted):
        return False
    if hasattr(value, "columns"):
        return value.dtypes.equals(wanted.dtypes) and value.equals(wanted)
    return value == wanted


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def store(memory, make, count: int, size: int) -> list[str]:
    for number in range(count):
        memory.put(f"result.{number}", make(number, size))
    return [f"result.{number}" for number in range(count)]


def fetched(memory, make, count: int, size: int) -> list[str]:
    def fetch(number: int) -> bytes:
        return make(number, size)

    plan = load_plan(
        "name: spill\nobjective: many large results\nnodes:\n"
        "  - {id: numbers, tool: numbers}\n"
        "  - {id: result, tool: fetch, depends_on: [numbers], args: {number: '{item}'},\n"
        "     for_each: {source: '{artifacts.numbers}', max_concurrency: 4}}\n"
    )
    registry = ToolRegistry([fetch])
    registry.register(numbers_of(count))
    manifest = run_sync(plan, registry=registry, memory=memory)
    if manifest.status != "completed":
        raise RuntimeError(manifest)
    return memory.keys("result")


def numbers_of(count: int):
    def numbers() -> list[int]:
        return list(range(count))

    return numbers


def child(kind: str, count: int, size: int, budget: int) -> dict:
    make = MADE[kind]
    # What is loaded once, and what one value takes while it goes and comes, is not the memory's.
    trial = WorkingMemory(1)
    (fetched if kind == "engine" else store)(trial, make, 2, size)
    trial.get("result.0")
    del trial
    gc.collect()
    idle = resident()
    memory = WorkingMemory(budget)
    begin = time.perf_counter()
    keys = (fetched if kind == "engine" else store)(memory, make, count, size)
    stored = time.perf_counter() - begin
    asyncio.run(memory.make_room())
    usage = memory.usage()
    same = sum(equal(memory.get(key), make(at, size)) for at, key in enumerate(keys))
    return {
        "over": max(0, peak() - idle - budget) / MEGABYTE,
        "peak": (peak() - idle) / MEGABYTE,
        "idle": idle / MEGABYTE,
        "same": same,
        "stored": stored,
        "seconds": time.perf_counter() - begin,
        "resident": usage.resident_bytes / MEGABYTE,
        "spilled": usage.spilled_bytes / MEGABYTE,
        "held": memory.nbytes / MEGABYTE,
    }


def row(kind: str, found: dict, count: int) -> str:
    cells = [
        kind,
        f"{found['held']:,.0f}",
        f"{found['resident']:,.0f}",
        f"{found['peak']:,.0f}",
        f"{found['same']} of {count}",
        f"{found['seconds']:.0f}",
        GOALS.get(kind, ""),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-w", "--workload", action="append", choices=KINDS)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--size", type=int, default=5 * MEGABYTE)
    parser.add_argument("--budget", type=int, default=200 * MEGABYTE)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        found = child(args.child, args.count, args.size, args.budget)
        print("RESULT " + json.dumps(found), flush=True)
        return
    print(f"budget {args.budget / MEGABYTE:,.0f} MB; all figures but the last two in MB")
    print("| values | held | of it in memory | peak over idle | equal | s | goal |")
    print("|---|---|---|---|---|---|---|")
    table, missed = {}, []
    for kind in args.workload or KINDS:
        command = [sys.executable, __file__, "--child", kind]
        for name in ("count", "size", "budget"):
            command += [f"--{name}", str(getattr(args, name))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            sys.exit(f"{kind} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        found = table[kind] = json.loads(lines[-1].removeprefix("RESULT "))
        print(row(kind, found, args.count), flush=True)
        if (kind in GOALS and found["over"] > 100) or found["same"] != args.count:
            missed.append(kind)
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))
    if missed:
        sys.exit(f"over the goal: {', '.join(missed)}")


if __name__ == "__main__":
    main()
