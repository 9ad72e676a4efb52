"""Measure planbench against bare asyncio and against gather + Semaphore, in turns.

    python benchmarks/run.py                    # all workloads, the table on stdout
    python benchmarks/run.py -w chain -w map8 --repeats 15

Each workload gets a fresh process in which the contestants take turns, so that a
ratio never mixes two moments of a noisy machine. Only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import workloads as wl

WORKLOADS = {
    "chain": ("chain", 1000, 8),
    "wide": ("wide", 1000, 8),
    "layers": ("layers", 50, 8),
    "map8": ("map", 10_000, 8),
    "map64": ("map", 10_000, 64),
    "sleep": ("sleep", 300, 16),
    "threads": ("threads", 200, 16),
    "payload": ("payload", 300, 16),
}
GOALS = {
    "chain": "at most 3 of asyncio",
    "wide": "at most 3 of asyncio",
    "layers": "at most 3 of asyncio",
    "map8": "at most 1 of the idiom",
    "map64": "at most 1 of the idiom",
    "sleep": "efficiency 0.95",
    "threads": "efficiency 0.95",
    "payload": "",
}


class Side:
    """One contestant, prepared, with its times in seconds."""

    def __init__(self, peer: str, case: wl.Case, runner: asyncio.Runner) -> None:
        self.case, self.runner = case, runner
        begin = time.perf_counter()
        self.prepared = self._call(importlib.import_module(f"{peer}_peer").prepare, case)
        self.build = time.perf_counter() - begin
        self.times: list[float] = []

    def _call(self, function, *args):
        async def call():
            value = function(*args)
            return await value if inspect.isawaitable(value) else value

        return self.runner.run(call())

    def turn(self) -> None:
        wl.CALLS.clear()
        gc.collect()
        begin = time.perf_counter()
        kept = self._call(self.prepared.run)
        self.times.append(time.perf_counter() - begin)
        del kept
        if len(wl.CALLS) != self.case.calls:
            raise RuntimeError(f"{len(wl.CALLS)} tool calls, not {self.case.calls}")

    def close(self) -> None:
        self._call(self.prepared.close)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def payload(case: wl.Case) -> dict:
    with asyncio.Runner() as runner:
        Side("planbench", wl.Case(case.workload, 4, case.concurrency), runner).turn()
        side = Side("planbench", case, runner)
        gc.collect()
        before = resident()
        side.turn()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ideal = case.size * wl.PAYLOAD_BYTES
    return {"memory": (peak - before) / ideal, "planbench": side.times[0]}


def in_turns(case: wl.Case, repeats: int) -> dict:
    with asyncio.Runner() as runner:
        sides = {peer: Side(peer, case, runner) for peer in ("asyncio", "idiom", "planbench")}
        for turn in range(repeats + 1):
            for side in sides.values():
                side.turn()
                if not turn:
                    side.times.clear()
        found = {peer: statistics.median(side.times) for peer, side in sides.items()}
        # of the ratios of single turns the median: a slow moment hits both of a turn
        for peer in ("asyncio", "idiom"):
            pairs = zip(sides["planbench"].times, sides[peer].times, strict=True)
            found[f"to_{peer}"] = statistics.median(mine / theirs for mine, theirs in pairs)
        if ideal := wl.ideal_seconds(case):
            found["efficiency"] = ideal / found["planbench"]
            found["limit_efficiency"] = ideal / found["asyncio"]
        found["build"] = sides["planbench"].build
        for side in sides.values():
            side.close()
    return found


async def worst_gap(size: int) -> float:
    """Run a fan-out of instant calls beside a ticker of 1 ms; give the ticker's worst gap in ms."""
    planbench_peer = importlib.import_module("planbench_peer")

    prepared = planbench_peer.prepare(wl.Case("map", size, 8))
    await prepared.run()
    worst = 0.0
    over = asyncio.Event()

    async def ticker() -> None:
        nonlocal worst
        last = time.perf_counter()
        while not over.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    watching = asyncio.create_task(ticker())
    await asyncio.sleep(0.02)
    worst = 0.0
    await prepared.run()
    over.set()
    await watching
    return worst * 1000


def child(label: str, repeats: int) -> dict:
    if label == "gap":
        return {"gap": statistics.median(asyncio.run(worst_gap(10_000)) for _ in range(5))}
    case = wl.Case(*WORKLOADS[label])
    return payload(case) if case.kind == "payload" else in_turns(case, repeats)


def row(label: str, found: dict) -> str:
    def cell(key: str, form: str) -> str:
        return format(found[key], form) if key in found else ""

    cells = [
        label,
        cell("to_asyncio", ".2f"),
        cell("to_idiom", ".2f"),
        cell("efficiency", ".3f") or cell("memory", ".2f"),
        cell("limit_efficiency", ".3f"),
        format(found["planbench"] * 1000, ".1f") if "planbench" in found else cell("gap", ".1f"),
        GOALS.get(label, "at most 20 ms"),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-w", "--workload", action="append", choices=[*WORKLOADS, "gap"])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("RESULT " + json.dumps(child(args.child, args.repeats)), flush=True)
        os._exit(0)  # threads of napping tools need not be waited for
    print(
        "| workload | to asyncio | to gather + Semaphore | efficiency, memory | limit's | ms | goal |"
    )
    print("|---|---|---|---|---|---|---|")
    table = {}
    for label in args.workload or [*WORKLOADS, "gap"]:
        command = [sys.executable, __file__, "--child", label, "--repeats", str(args.repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            sys.exit(f"{label} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        table[label] = json.loads(lines[-1].removeprefix("RESULT "))
        print(row(label, table[label]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
