"""The values of one run: results handed to arguments, stored, measured, digested."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from planbench import events as ev
from planbench.memory.entries import PLAIN
from planbench.plan.shapes import lacks_return
from planbench.runtime.digests import digest_of, digest_of_plain
from planbench.runtime.texts import texts_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from planbench.memory import WorkingMemory
    from planbench.memory.artifacts import ArtifactStore
    from planbench.memory.entries import Entry
    from planbench.runtime.compiled import CompiledNode
    from planbench.runtime.restore import Keeping
    from planbench.runtime.run import Run
    from planbench.runtime.secrets import Secrets

LARGE: Final = 1_000_000
"""Bytes above which facets are read off the loop."""
MAX_WARNING: Final = 300
LARGEST_EFFORT: Final = 256_000_000
"""Bytes above which a value stays in memory only, where it is not required to be durable."""


class Values:
    """Reads and stores what the nodes of a run give; a run reads its own versions only.

    ``aside`` does a piece of work off the loop; ``keeping`` says how values are made durable.
    """

    def __init__(
        self,
        run: Run,
        memory: WorkingMemory,
        aside: Callable[[Callable[[], Any]], Awaitable[Any]],
        keeping: Keeping | None = None,
    ) -> None:
        self._run = run
        self._memory = memory
        self._aside = aside
        self._artifacts = None if keeping is None else keeping.artifacts
        self._required = keeping is None or keeping.required
        self.recorded = keeping is not None
        self._bodies = run.bodies
        self.secret = None if run.secrets is None else run.secrets.get
        self.written: dict[str, str] = {}

    def artifact(self, node_id: str) -> Any:
        """Give the stored body of a node of this run; of a fan-out the list of its survivors."""
        body = self._bodies[node_id]
        if type(body) is list:
            return [entry.view() for entry in body if entry is not None]
        value = body.value  # type: ignore[union-attr]  # what is no list is an Entry
        return value if type(value) in PLAIN else body.view()  # type: ignore[union-attr]  # as above

    def ref(self, node_id: str) -> dict[str, Any]:
        """Give the small ref of a node as a dict."""
        return self._run.state.nodes[node_id].ref().model_dump(mode="json")

    async def persist(self, value: Any, nbytes: int) -> dict[str, Any] | None:
        """Make a body durable before the record that names it; gives what the record says of it.

        None for one that stays in memory only, where it is not required to be durable: it is
        of a kind that cannot be kept, too large, holds a secret, or its place is full.
        """
        artifacts = self._artifacts
        if artifacts is None or (not self._required and nbytes > LARGEST_EFFORT):
            return None
        write = _write if self._required else _try_to_write
        record: dict[str, Any] | None = await self._aside(
            partial(write, artifacts, value, self._run.secrets)
        )
        return record

    def store(
        self,
        node: CompiledNode,
        digest: str | None,
        value: Any,
        nbytes: int,
        artifact: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Store a plain node's result; gives what is recorded. Raises ValueError for a key that is taken."""
        key = node.store_key
        if key in self.written:
            msg = f"the key {key!r} was taken by node {self.written[key]!r} in this run"
            raise ValueError(msg)
        self.written[key] = node.id
        entry = self._memory.put_item(key, value, node.id, node.tool_name, None, nbytes)
        if node.description:
            entry.description = node.description
        self._bodies[node.id] = entry
        data: dict[str, Any] = {
            "node_id": node.id,
            "status": "ok",
            "key": key,
            "version": entry.version,
            "bytes": nbytes,
            "entry_type": entry.entry_type,
            "digest": digest,
        }
        if self.recorded:
            data["artifact_id"] = entry.artifact_id
            if artifact is not None:
                data["artifact"] = artifact
        return data

    async def facets(self, node: CompiledNode, value: Any, nbytes: int) -> dict[str, Any]:
        """Read a value's facets, off the loop when it is large; what does not fit is a warning."""
        reader = node.facets
        assert reader is not None
        found: dict[str, Any]
        if nbytes > LARGE:
            found, problems = await self._aside(lambda: reader.read(value))
        else:
            found, problems = reader.read(value)
        why = f"; {lacks_return(node.tool_name, node.id)}" if value is None else ""
        for problem in problems:
            text = f"facet left out: {problem}{why}"[:MAX_WARNING]
            self._run.emit(ev.NODE_PROGRESS, {"node_id": node.id, "warning": text})
        return found

    def digest(self, node: CompiledNode, args: dict[str, Any], item: Any) -> str | None:
        """Give the digest of a call's arguments; results that it reads count by their version.

        None for a call with a secret: who has the digest of a short value can guess the value.
        """
        if node.secrets:
            return None
        if not node.arg_reads:
            return digest_of(args)
        bodies = self._bodies
        versions: list[Any] = []
        for read in node.arg_reads:
            body = bodies[read]
            if type(body) is list:
                versions.append([None if e is None else _version(e) for e in body])
            else:
                entry: Any = body  # no list: an Entry
                versions += (entry.memory_id, entry.number, entry.version)
        if item is None:
            return digest_of_plain(versions, node.written)
        return digest_of([versions, item], node.written)

    async def item(self, entry: Entry) -> Any:
        """Give an item that is another result, read off the loop where it was spilled and is large."""
        if entry.spilled and entry.nbytes > LARGE:
            return await self._aside(entry.view)
        return entry.view()

    def bytes_of(self, node_id: str) -> int:
        """Give the bytes that a node has stored in this run."""
        return self._run.state.nodes[node_id].nbytes


def _write(artifacts: ArtifactStore, value: Any, secrets: Secrets | None) -> dict[str, Any]:
    del secrets  # the host that asks for durable values says where they lie
    return artifacts.write(value).to_dict()


def _try_to_write(
    artifacts: ArtifactStore, value: Any, secrets: Secrets | None
) -> dict[str, Any] | None:
    try:
        if secrets is not None and any(secrets.holds(text) for text in texts_in(value)):
            return None
        return artifacts.write(value).to_dict()
    except Exception:  # noqa: BLE001 - objects of users may raise anything when they are looked into
        return None


def _version(entry: Entry) -> tuple[str, int, int]:
    """Name one version of an artifact; one that was put back has the id of another memory."""
    return entry.memory_id, entry.number, entry.version
