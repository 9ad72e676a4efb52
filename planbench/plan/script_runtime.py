"""How a plan's script runs: calls, fan-outs, guards, blocked and skipped nodes.

Only the parts that a script needs are copied into it. They are written for the person who
reads the script: what planbench does with journals, versions and workers is left out.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from typing import Any

from planbench.plan.script_values import rows, yes_or_no


class NotWritten(Exception):
    """Raised for a part of the script that a person has to write."""


class Skip(Exception):
    """Raised to skip a node, with the reason."""


class Stop(Exception):
    """Raised to stop a fan-out, with the reason."""


class Run:
    """What the nodes gave and how they ended: ok, partial, error or skipped."""

    def __init__(self, tools: Any, params: dict[str, Any], at_most: int) -> None:
        self.tools = tools
        self.params = params
        self.places = asyncio.Semaphore(at_most)
        self.results: dict[str, Any] = {}
        self.stored: dict[str, Any] = {}
        self.keys: dict[str, list[str]] = {}
        self.status: dict[str, str] = {}
        self.reasons: dict[str, list[str]] = {}
        self.facets: dict[str, dict[str, Any]] = {}
        self.survivors: dict[str, dict[int, Any]] = {}
        self.items: dict[str, tuple[int, int]] = {}

    def store(self, node: str, key: str, value: Any) -> Any:
        """Keep a result under its key, and give it back; a key is taken once."""
        if key in self.stored:
            raise ValueError(f"the key {key!r} is taken")
        self.stored[key] = value
        self.keys.setdefault(node, []).append(key)
        return value

    def end(self, node: str, status: str, *reasons: str) -> None:
        """Note how a node ended."""
        self.status[node] = status
        self.reasons.setdefault(node, []).extend(reasons)


async def call(
    run: Run,
    tool: str,
    args: dict[str, Any],
    *,
    limit: float | None = None,
    attempts: int = 1,
    backoff: float = 0.0,
) -> Any:
    """Call a tool, as often as it may be tried; the wait grows with each try."""
    async with run.places:
        for attempt in range(1, attempts + 1):
            try:
                async with asyncio.timeout(limit):
                    return await once(run.tools[tool], args)
            except Exception:
                if attempt == attempts:
                    raise
            await asyncio.sleep(backoff * attempt)
    return None


async def once(function: Any, args: dict[str, Any]) -> Any:
    """Await an async function, and call a plain one in a thread."""

    def plain() -> Any:
        try:
            return function(**args)
        except StopIteration as error:  # no thread can hand it on
            raise RuntimeError("the tool raised StopIteration") from error

    if inspect.iscoroutinefunction(function):
        return await function(**args)
    value = await asyncio.to_thread(plain)
    return await value if inspect.isawaitable(value) else value


async def each(
    run: Run, node: str, items: Any, one: Any, key: Any, limits: dict[str, Any]
) -> list[Any]:
    """Make one call per item, a few at a time, and give what came back, in item order."""
    items = opened(items, limits["max_items"])
    found = run.survivors[node] = {}
    lost: list[str] = []
    queue = iter(enumerate(items))

    async def work() -> None:
        for index, item in queue:
            try:
                value = await one(item, index)
                run.store(node, key(item, index), value)
                found[index] = value
            except Exception as error:
                lost.append(f"[{index}] {type(error).__name__}: {error}"[:300])
                if too_many(len(lost), len(items), limits):
                    raise Stop(f"stopped when {len(lost)} items had failed: {lost[-1]}") from error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limits["max_concurrency"], len(items))):
                group.create_task(work())
    except* Stop as stopped:
        raise RuntimeError(str(stopped.exceptions[0])) from None
    run.items[node] = len(found), len(lost)
    if limits["on_item_error"] != "skip":
        run.reasons[node] = lost[:20]
    if lost and not found:
        raise RuntimeError(f"all {len(lost)} items failed")
    return [found[index] for index in sorted(found)]


def opened(source: Any, most: int) -> list[Any]:
    """Give the items of a list or the rows of a table; too many are an error, never a cut."""
    if not isinstance(source, list | tuple) and not hasattr(source, "iloc"):
        raise TypeError(f"a fan-out needs a list, and got {type(source).__name__}")
    items = rows(source)
    if len(items) > most:
        raise ValueError(f"{len(items)} items are over max_items of {most}")
    return items


def too_many(failed: int, total: int, limits: dict[str, Any]) -> bool:
    """Whether so many items may not fail; ``max_failed`` is a number or a share."""
    most = limits["max_failed"]
    if isinstance(most, str):
        most = int(total * float(most.rstrip("%")) / 100)
    return limits["on_item_error"] == "fail" or (most is not None and failed > most)


def to_write(function: Any) -> Any:
    """Mark what a person has to write; the script does not start while a mark is there."""
    function.to_write = True
    return function


async def approved(message: str) -> None:
    """Ask on the terminal."""
    answer = await asyncio.to_thread(input, f"{message} [y/N] ")
    if answer.strip().lower() not in {"y", "yes"}:
        raise RuntimeError("not approved")


async def settle(run: Run, node: dict[str, Any]) -> None:
    """Take one node to its end: blocked, skipped, or called."""
    name = node["id"]
    if any(run.status[need] == "error" for need in node["needs"]):
        run.end(name, "error", "never called: blocked by a failed dependency")
        return
    try:
        for read in node["reads"]:
            if run.status[read] == "skipped":
                raise Skip(f"reads {read!r}, which was skipped")
        if "guard" in node:
            may_run(run, node["guard"])
        value = await node["work"](run)
    except Skip as reason:
        run.end(name, "skipped", str(reason))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its node's
        run.end(name, "error", f"{type(error).__name__}: {error}"[:300])
    else:
        run.results[name] = value
        run.end(name, "partial" if run.items.get(name, (0, 0))[1] else "ok")
    if "facets" in node and (name in run.results or name in run.survivors):
        run.facets[name] = node["facets"](run)


def may_run(run: Run, guard: Any) -> None:
    """Ask a guard; one that is false, or has no answer, skips its node."""
    try:
        passed = yes_or_no(guard(run))
    except Exception as error:
        raise Skip(f"the guard has no answer: {type(error).__name__}: {error}") from error
    if not passed:
        raise Skip("the guard is false")


async def execute(run: Run, nodes: list[dict[str, Any]], limit: float | None) -> Run:
    """Run the nodes, which stand in the order of their dependencies."""
    for node in nodes:
        for part in filter(None, (node["work"], node.get("guard"))):
            if hasattr(part, "to_write"):
                raise NotWritten(f"write the function {part.__name__}, then take its mark away")
    tasks: dict[str, asyncio.Task[None]] = {}

    async def take(node: dict[str, Any]) -> None:
        await asyncio.gather(*(asyncio.shield(tasks[need]) for need in node["needs"]))
        await settle(run, node)

    try:
        async with asyncio.timeout(limit), asyncio.TaskGroup() as group:
            for node in nodes:
                tasks[node["id"]] = group.create_task(take(node))
    except TimeoutError:
        for node in nodes:
            if node["id"] not in run.status:
                run.end(node["id"], "error", f"the time limit of {limit} s was over")
    return run


def given(words: list[str], kinds: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
    """Read NAME=VALUE of the command line; what is no text is written as JSON."""
    found = dict(values)
    for word in words:
        name, _, written = word.partition("=")
        if name not in kinds:
            raise SystemExit(
                f"there is no parameter {name!r}; there are {', '.join(kinds) or 'none'}"
            )
        plain = kinds[name] in {"str", "date", "datetime"}
        found[name] = written if plain else json.loads(written)
    missing = [name for name in kinds if name not in found]
    if missing:
        raise SystemExit(f"a value is missing: {missing[0]}=...")
    return found


class Module(dict[str, Any]):
    """The tools of a module by name; those whose names are no Python names stand in TOOLS."""

    def __missing__(self, name: str) -> Any:
        module = importlib.import_module(sys.argv[1])
        self.update(getattr(module, "TOOLS", {}))
        return self.get(name) or getattr(module, name)


def show(run: Run) -> int:
    """Print how each node ended; gives 1 when one is red, else 0."""
    for node, status in run.status.items():
        line = "  ".join([f"{status:8} {node}", *run.reasons[node][:3]])
        sys.stdout.write(f"{line}\n")
    return int("error" in run.status.values())
