"""Where durable artifacts lie, and whose they are."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from planbench.errors import ConfigurationError, StoreError
from planbench.memory.artifact_files import open_files
from planbench.memory.artifacts import ArtifactStore
from planbench.plan.source import shown

if TYPE_CHECKING:
    from types import TracebackType

    from planbench.memory.artifact_files import ArtifactFiles

_LONGEST: Final = 1_000
_SHOWN: Final = 40
_DIGEST: Final = 24
_UNSAFE: Final = re.compile(r"[^a-z0-9]+")
_SECRET: Final = re.compile(r"(?<=://)[^/?#]*@")


@dataclass(frozen=True, slots=True)
class TaskScope:
    """Whose artifacts they are: a namespace (a team, a service), a task and, if any, a user.

    The host sets it; nothing in it comes from a plan or a model. Any text will do, and
    none of it becomes part of a path as it is.
    """

    namespace: str
    task: str = "default"
    user: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            if name == "user" and value is None:
                continue
            if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
                raise ConfigurationError(
                    f"the {name} of a scope is {shown(value)}",
                    hint=f"give text of 1 to {_LONGEST:,} characters",
                )

    def to_dict(self) -> dict[str, str | None]:
        """Give the scope as a journal holds it."""
        return asdict(self)


class TaskMemoryRuntime:
    """A place for durable artifacts: a folder, or whatever URL fsspec can write to.

    ``start`` it before it is used, or use it as an async context manager. Who is handed
    a started one borrows it, and never closes it. With ``allow_pickle``, values of
    other classes are pickled; reading such an artifact runs the code in it, so allow it
    only where nobody else can write. Without ``flushed``, what is stored in a local place
    is not forced to the disk, and small values share a database: that is much faster, and
    outlives the process, but not always a machine that stops. What was lost then is found
    by its digest and never read as something else.
    """

    def __init__(
        self, url: str | Path, *, allow_pickle: bool = False, flushed: bool = True
    ) -> None:
        given: Any = url
        if not isinstance(given, str | Path) or not str(given):
            raise ConfigurationError(
                f"the place of artifacts is {shown(url)}",
                hint='give a folder such as ".planbench/artifacts", or a URL of fsspec',
            )
        self.url = str(url)
        self.allow_pickle = allow_pickle
        self.flushed = flushed
        self._files: ArtifactFiles | None = None

    @property
    def started(self) -> bool:
        """Whether it is in use: ``start`` has found the place writable, ``close`` was not called."""
        return self._files is not None

    async def start(self) -> None:
        """Make the place and see that it can be written; raises StoreError if not.

        Raises ConfigurationError for a URL that fsspec does not know.
        """
        if self._files is None:
            self._files = await asyncio.to_thread(self._opened)

    async def close(self) -> None:
        """End its use; what is stored stays."""
        files, self._files = self._files, None
        if files is not None:
            await asyncio.to_thread(files.close)

    def store(self, scope: TaskScope) -> ArtifactStore:
        """Give the artifacts of a scope; raises ConfigurationError before ``start``."""
        if not isinstance(scope, TaskScope):
            raise ConfigurationError(
                f"durable artifacts belong to a scope, not to {shown(scope)}",
                hint='give TaskScope("my-team", "my-task")',
            )
        if self._files is None:
            raise ConfigurationError(
                f"{self!r} is not started", hint="await runtime.start(), or use `async with`"
            )
        user = "shared" if scope.user is None else f"user-{_folder(scope.user)}"
        place = self._files.below(_folder(scope.namespace), _folder(scope.task), user)
        return ArtifactStore(place, allow_pickle=self.allow_pickle)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "started" if self.started else "not started"
        return f"<TaskMemoryRuntime {public(self.url)}: {state}>"

    def _opened(self) -> ArtifactFiles:
        files = open_files(self.url, flushed=self.flushed)
        try:
            files.probe()
        except Exception as error:  # every file system of fsspec has errors of its own
            said = shown(public(str(error)), 200)
            raise StoreError(
                f"artifacts cannot be stored in {public(self.url)}: {type(error).__name__}: {said}",
                hint="give a place that exists or can be made, and that this process may write to",
            ) from error
        return files


def public(url: str) -> str:
    """Give a URL without who signs in and what is asked, for messages."""
    return _SECRET.sub("***@", url).partition("?")[0]


def _folder(text: str) -> str:
    """Name a folder by any text: readable, and another one for every other text.

    The digest keeps apart what a file system may call equal, such as upper and lower case.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    words = _UNSAFE.sub("-", text.lower())[:_SHOWN].strip("-")
    return f"{words}-{digest}" if words else digest


__all__ = ["TaskMemoryRuntime", "TaskScope"]
