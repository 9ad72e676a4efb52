"""What became of a plan: nodes added, removed, renamed, changed field by field, and moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from planbench.errors import ConfigurationError
from planbench.plan.diff_markdown import markdown
from planbench.plan.diff_text import summary, text, title
from planbench.plan.matching import find_renames, moved_nodes
from planbench.plan.model import ExecutionPlan, PlanNode
from planbench.plan.patch import applied
from planbench.plan.records import FieldChange, changes
from planbench.plan.rename import renamed_node
from planbench.plan.source import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Mark = Literal["same", "added", "removed", "renamed", "changed"]


class DiffModel(BaseModel):
    """The base of what a diff is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AddedNode(DiffModel):
    """A node that is new, and the id of the one before it; None for the first."""

    node: PlanNode
    after: str | None = None


class RemovedNode(DiffModel):
    """A node that is gone."""

    node: PlanNode


class RenamedNode(DiffModel):
    """A node under another id; what refers to it follows, and so does a key that was its id."""

    old: str
    new: str


class ChangedNode(DiffModel):
    """A node under the id that it has now, and each field that differs."""

    id: str
    changes: tuple[FieldChange, ...]


class MovedNode(DiffModel):
    """A node that stands elsewhere in the list, and the id of the one before it."""

    id: str
    after: str | None = None


class DiffEdge(DiffModel):
    """An arrow from a node to one that waits for it, by the ids that they have now."""

    source: str
    target: str
    mark: Literal["same", "added", "removed"] = "same"


class DiffNode(DiffModel):
    """A node of either plan as it is drawn; ``was`` is the id that it had."""

    id: str
    mark: Mark = "same"
    was: str | None = None
    kind: Literal["tool", "fan_out", "delegate"] = "tool"
    tool: str = ""
    changes: int = 0


class DiffGraph(DiffModel):
    """Both plans in one graph: what is gone stands where it stood."""

    nodes: tuple[DiffNode, ...] = ()
    edges: tuple[DiffEdge, ...] = ()

    def around_changes(self, limit: int) -> DiffGraph:
        """Give the graph, or of one with more than ``limit`` nodes the changes and what is next to them."""
        if len(self.nodes) <= limit:
            return self
        shown = {node.id for node in self.nodes if node.mark != "same"}
        shown |= {end for edge in self.edges if edge.mark != "same" for end in _ends(edge)}
        near = {
            end for edge in self.edges for end in _ends(edge) if not shown.isdisjoint(_ends(edge))
        }
        shown |= near
        return DiffGraph(
            nodes=tuple(node for node in self.nodes if node.id in shown),
            edges=tuple(edge for edge in self.edges if shown.issuperset(_ends(edge))),
        )


class PlanDiff(DiffModel):
    """What turns one plan into another; false when that is nothing.

    ``fields`` are those of the plan itself. A node counts as renamed when nothing but its id
    differs, references followed. The order of keys in a map is no difference, and neither
    is a default that is written out. ``graph`` shows both plans in one.
    """

    old_name: str
    new_name: str
    fields: tuple[FieldChange, ...] = ()
    added: tuple[AddedNode, ...] = ()
    removed: tuple[RemovedNode, ...] = ()
    renamed: tuple[RenamedNode, ...] = ()
    changed: tuple[ChangedNode, ...] = ()
    moved: tuple[MovedNode, ...] = ()
    edges_added: tuple[DiffEdge, ...] = ()
    edges_removed: tuple[DiffEdge, ...] = ()
    graph: DiffGraph = DiffGraph()

    def __bool__(self) -> bool:
        return any((self.fields, self.added, self.removed, self.renamed, self.changed, self.moved))

    def apply(self, plan: ExecutionPlan) -> ExecutionPlan:
        """Make the same changes to a plan: the old one gives the new one.

        Another plan is taken too, as far as what would be changed is there as it was.
        Raises PlanInvalid, with an issue ``diff_conflict`` for each change that does not
        fit, or with what would be wrong with the result.
        """
        return applied(self, plan)

    def to_text(self) -> str:
        """Give the diff as lines for a terminal."""
        return text(self)

    def to_markdown(self) -> str:
        """Give the diff as Markdown with a Mermaid graph, as pull requests show it."""
        return markdown(self)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"<PlanDiff {title(self)}: {summary(self)}>"

    def _repr_markdown_(self) -> str:
        return markdown(self)


def diff_plans(a: ExecutionPlan, b: ExecutionPlan) -> PlanDiff:
    """Compare two plans by what they say: ``diff_plans(a, b).apply(a) == b``.

    Raises ConfigurationError for what is no plan.
    """
    for one in (a, b):
        if not isinstance(one, ExecutionPlan):
            raise ConfigurationError(
                f"two plans are compared, and {shown(one)} is none",
                hint="read it first: load_plan(text) or load_plan(Path(...))",
            )
    names = find_renames(a.nodes, b.nodes)
    old = {one.id: one for one in (renamed_node(node, names) for node in a.nodes)}
    new = {node.id: node for node in b.nodes}
    was = {current: former for former, current in names.items()}
    changed = {
        name: found
        for name in new
        if name in old and (found := tuple(changes(old[name], new[name])))
    }
    kept = [name for name in old if name in new]
    moved = moved_nodes(kept, [name for name in new if name in old])
    before = dict(zip(new, [None, *new], strict=False))
    edges = _edges(old.values(), new.values())
    return PlanDiff(
        old_name=a.name,
        new_name=b.name,
        fields=tuple(_plan_changes(a, b)),
        added=tuple(
            AddedNode(node=node, after=before[name])
            for name, node in new.items()
            if name not in old
        ),
        # by the content that they had: what was renamed under them is not their change
        removed=tuple(RemovedNode(node=node) for node in a.nodes if _now(node, names) not in new),
        renamed=tuple(RenamedNode(old=former, new=names[former]) for former in names),
        changed=tuple(ChangedNode(id=name, changes=found) for name, found in changed.items()),
        moved=tuple(MovedNode(id=name, after=before[name]) for name in new if name in moved),
        edges_added=tuple(edge for edge in edges if edge.mark == "added"),
        edges_removed=tuple(edge for edge in edges if edge.mark == "removed"),
        graph=DiffGraph(
            nodes=tuple(
                _sketch(node, _mark(node.id, old, new, was, changed), was.get(node.id), changed)
                for node in _woven(list(old.values()), list(new.values()))
            ),
            edges=tuple(edges),
        ),
    )


def _now(node: PlanNode, names: Mapping[str, str]) -> str:
    return names.get(node.id, node.id)


def _plan_changes(a: ExecutionPlan, b: ExecutionPlan) -> Iterable[FieldChange]:
    for name in type(b).model_fields:
        if name != "nodes":
            yield from changes(getattr(a, name), getattr(b, name), (name,))


def _edges(old: Iterable[PlanNode], new: Iterable[PlanNode]) -> list[DiffEdge]:
    before = {(need, node.id): None for node in old for need in node.depends_on}
    after = {(need, node.id): None for node in new for need in node.depends_on}
    found = [
        DiffEdge(source=s, target=t, mark="same" if (s, t) in before else "added") for s, t in after
    ]
    gone = [pair for pair in before if pair not in after]
    return found + [DiffEdge(source=s, target=t, mark="removed") for s, t in gone]


def _woven(old: Sequence[PlanNode], new: Sequence[PlanNode]) -> list[PlanNode]:
    """Put the nodes that are gone back where they stood among those that are there."""
    here = {node.id for node in new}
    behind: dict[str | None, list[PlanNode]] = {}
    anchor: str | None = None
    for node in old:
        if node.id in here:
            anchor = node.id
        else:
            behind.setdefault(anchor, []).append(node)
    woven = list(behind.get(None, ()))
    for node in new:
        woven += [node, *behind.get(node.id, ())]
    return woven


def _mark(
    name: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    was: Mapping[str, str],
    changed: Mapping[str, Any],
) -> Mark:
    if name not in new:
        return "removed"
    if name not in old:
        return "added"
    if name in was:
        return "renamed"
    return "changed" if name in changed else "same"


def _sketch(
    node: PlanNode, mark: Mark, was: str | None, changed: Mapping[str, Sequence[Any]]
) -> DiffNode:
    kind: Literal["tool", "fan_out", "delegate"] = "tool" if node.for_each is None else "fan_out"
    is_delegate = node.type == "delegate"
    return DiffNode(
        id=node.id,
        mark=mark,
        was=was,
        kind="delegate" if is_delegate else kind,
        tool=" or ".join(["delegate", *(node.tools or ())][:4]) if is_delegate else node.tool or "",
        changes=len(changed.get(node.id, ())),
    )


def _ends(edge: DiffEdge) -> tuple[str, str]:
    return edge.source, edge.target
