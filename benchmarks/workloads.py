"""The work that is measured, and what a contestant offers to do it.

A contestant is a module ``NAME_peer`` with ``prepare(case)``, which builds what can
be built once and returns ``Prepared(run)``; ``run`` is called and timed many times.
Every tool call appends to ``CALLS``, so a run that calls too little is found out.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: list[None] = []
NAP = 0.010
PAYLOAD_BYTES = 1 << 20


class Unsupported(Exception):
    """The contestant has no way to do this."""


@dataclass
class Prepared:
    run: Callable[[], Any]
    close: Callable[[], Any] = lambda: None
    note: str = ""


@dataclass(frozen=True)
class Case:
    workload: str
    size: int
    concurrency: int = 8
    folder: Path = Path()

    @property
    def kind(self) -> str:
        return self.workload.removeprefix("durable_")

    @property
    def durable(self) -> bool:
        return self.workload.startswith("durable_")

    @property
    def is_dag(self) -> bool:
        return self.kind in SHAPES

    @property
    def dag(self) -> dict[str, tuple[str, ...]]:
        return SHAPES[self.kind](self.size)

    @property
    def calls(self) -> int:
        return len(self.dag) if self.is_dag else self.size


def chain(size: int) -> dict[str, tuple[str, ...]]:
    names = [f"n{i}" for i in range(size)]
    return {name: (names[i - 1],) if i else () for i, name in enumerate(names)}


def wide(size: int) -> dict[str, tuple[str, ...]]:
    middle = [f"w{i}" for i in range(size)]
    return {"src": (), **dict.fromkeys(middle, ("src",)), "sink": tuple(middle)}


def layers(size: int, width: int = 40, needs: int = 3) -> dict[str, tuple[str, ...]]:
    draw = random.Random(7)
    dag: dict[str, tuple[str, ...]] = {}
    row: list[str] = []
    for depth in range(size):
        below = [f"l{depth}_{k}" for k in range(width)]
        dag |= {name: tuple(draw.sample(row, needs)) if row else () for name in below}
        row = below
    return dag


def threads(size: int) -> dict[str, tuple[str, ...]]:
    return {f"t{i}": () for i in range(size)}


SHAPES = {"chain": chain, "wide": wide, "layers": layers, "threads": threads}


async def tool(name: str, deps: list) -> dict:
    CALLS.append(None)
    return {"name": name, "n": len(deps)}


def blocking_tool(name: str, deps: list) -> dict:
    CALLS.append(None)
    time.sleep(NAP)
    return {"name": name, "n": len(deps)}


async def item_tool(item: int) -> dict:
    CALLS.append(None)
    return {"item": item}


async def nap_tool(item: int) -> dict:
    CALLS.append(None)
    await asyncio.sleep(NAP)
    return {"item": item}


async def payload_tool(item: int) -> bytes:
    CALLS.append(None)
    return b"x" * PAYLOAD_BYTES


ITEM_TOOLS = {"map": item_tool, "sleep": nap_tool, "payload": payload_tool}


def ideal_seconds(case: Case) -> float | None:
    """What the naps alone take."""
    if case.kind in ("sleep", "threads"):
        return -(-case.size // case.concurrency) * NAP
    return None
