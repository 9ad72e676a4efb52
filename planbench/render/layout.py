"""Places for the boxes and arrows: Graphviz, run as a process that can be killed.

The engine is ``$PLANBENCH_DOT`` where it is set, else graphviz-pure, which comes with
planbench, else a ``dot`` on the path.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from planbench.errors import RenderError

TIMEOUT: Final = 10.0
ENGINE_VARIABLE: Final = "PLANBENCH_DOT"
_CACHED: Final = 64
_CACHED_CHARACTERS: Final = 32_000_000
_SAID: Final = 200


class _Cache:
    """The latest layouts, by the hash of what was laid out."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, svg: str) -> None:
        with self._lock:
            self._characters += len(svg) - len(self._kept.pop(key, ""))
            self._kept[key] = svg
            while len(self._kept) > _CACHED or self._characters > _CACHED_CHARACTERS:
                self._characters -= len(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._characters = 0


cache: Final = _Cache()


class _Job:
    """One layout: runs in any thread, and is killed from any other."""

    def __init__(self, dot: str, timeout: float) -> None:
        self._dot = dot.encode("utf-8", "replace")
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def run(self) -> str:
        reasons = []
        for engine in engines():
            try:
                return self._run(engine)
            except _EngineFailed as error:
                reasons.append(f"{engine.name}: {error}")
        raise RenderError(
            f"no drawing: {'; '.join(reasons) or 'there is no Graphviz'}",
            hint=f"pip install graphviz-pure, or set {ENGINE_VARIABLE} to a dot program",
        )

    def _run(self, engine: Path) -> str:
        try:
            with self._lock:
                if self._stopped:
                    raise RenderError("the layout was cancelled")
                self._process = subprocess.Popen(  # noqa: S603 - the engine alone, no text of users
                    [str(engine), "-Kdot", "-Tsvg"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
        except OSError as error:
            raise _EngineFailed(error.strerror or type(error).__name__) from error
        with self._process as process:
            try:
                out, err = process.communicate(self._dot, timeout=self._timeout)
            except subprocess.TimeoutExpired as error:
                raise RenderError(
                    f"the layout took longer than {self._timeout:g} s and was ended",
                    hint="the text of the graph is there without a layout",
                ) from error
            finally:
                process.kill()
        if self._stopped:
            raise RenderError("the layout was cancelled")
        svg = out.decode("utf-8", "replace")
        if process.returncode or "</svg>" not in svg:
            said = err.decode("utf-8", "replace").strip().partition("\n")[0]
            raise _EngineFailed(said[:_SAID] or f"it ended with {process.returncode}")
        return svg


class _EngineFailed(Exception):
    """One engine gave no drawing; another may."""


def layout(dot: str, *, timeout: float = TIMEOUT) -> str:
    """Give the SVG of a graph in DOT; blocks. Raises RenderError with the reason.

    The process is killed after ``timeout`` seconds.
    """
    key = _key(dot)
    if (kept := cache.get(key)) is not None:
        return kept
    svg = _Job(dot, timeout).run()
    cache.put(key, svg)
    return svg


async def layout_async(dot: str, *, timeout: float = TIMEOUT) -> str:  # noqa: ASYNC109 - the process is killed, not the wait
    """Give the SVG of a graph in DOT without holding the loop; killed when cancelled."""
    key = _key(dot)
    if (kept := cache.get(key)) is not None:
        return kept
    job = _Job(dot, timeout)
    work = asyncio.get_running_loop().run_in_executor(None, job.run)
    try:
        svg = await asyncio.shield(work)
    except asyncio.CancelledError:
        job.stop()
        with contextlib.suppress(RenderError):
            await work
        raise
    cache.put(key, svg)
    return svg


def engines() -> list[Path]:
    """Give the engines to be tried, in order; raises RenderError when the one asked for is missing."""
    wanted = os.environ.get(ENGINE_VARIABLE)
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise RenderError(
                f"{ENGINE_VARIABLE} is {wanted!r}, and there is no such program",
                hint="unset it, and the engine that comes with planbench is taken",
            )
        return [Path(found)]
    dot = shutil.which("dot")
    return [engine for engine in (_bundled(), dot and Path(dot)) if engine]


@functools.cache
def _bundled() -> Path | None:
    """Find graphviz-pure by its files: its folder need not be on the path."""
    try:
        files = importlib.metadata.files("graphviz-pure") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.stem == "graphviz-pure" and file.suffix in {"", ".exe"}:
            path = Path(str(file.locate()))
            if path.is_file():
                return path.resolve()
    return None


def _key(dot: str) -> str:
    chosen = os.environ.get(ENGINE_VARIABLE, "")
    return hashlib.sha256(f"{chosen}\0{dot}".encode("utf-8", "replace")).hexdigest()
