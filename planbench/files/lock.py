"""What the tools of a plan were when it last ran green, so that a change is seen before the run.

The lock stands beside the plan, as ``<name>.lock.json``: sorted, without times, so that
two people who run the same plan write the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from planbench.errors import PlanLoadError
from planbench.plan.issues import ValidationIssue
from planbench.plan.source import shown
from planbench.tools import is_allowed
from planbench.validation import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planbench.plan.model import ExecutionPlan
    from planbench.tools import Tool, ToolRegistry

_NOTEBOOK: Final = "__main__"
_ANNOTATIONS: Final = frozenset({"title", "description", "examples", "$comment"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_VALUES: Final = frozenset({"default", "const", "enum"})
_SHOWN: Final = 5

Module = Annotated[str, StringConstraints(pattern=r"^[\w.<>\-]*$", max_length=300)]
Package = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]*$", max_length=200)
]
Version = Annotated[str, StringConstraints(pattern=r"^[\w.+!\-*]+$", max_length=100)]
Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,128}$")]


class LockedTool(BaseModel):
    """Where a tool lives, and a digest of the arguments that it takes and what it gives.

    ``package`` and ``version`` are those of the installed distribution; a tool of a
    notebook or of a file beside it has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: Module = ""
    package: Package | None = None
    version: Version | None = None
    fingerprint: Fingerprint | None = None

    def place(self) -> str:
        """Say where the tool lives."""
        if self.package:
            version = f" {self.version}" if self.version else ""
            return f"module {self.module} of package {self.package}{version}"
        if self.module == _NOTEBOOK:
            return "a notebook or script"
        return f"module {self.module}" if self.module else "a place that nobody put on record"

    def way(self) -> str:
        """Say how to get the tool."""
        if self.package:
            return f"install {self.package}, and register the tools of {self.module}"
        if self.module == _NOTEBOOK:
            return "run the cell that defines it, or move it into a module"
        return f"register the tools of {self.module}" if self.module else "register it"


class PlanLock(BaseModel):
    """The tools of one plan, by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    tools: dict[str, LockedTool] = Field(default_factory=dict)


def make_lock(plan: ExecutionPlan, registry: ToolRegistry) -> PlanLock:
    """Put on record the tools that a plan calls, as the registry has them now.

    A tool that a delegate may choose counts too; one that is not registered is left out.
    """
    found: dict[str, LockedTool] = {}
    for name in sorted(_users(plan, registry)):
        tool = registry.get(name)
        if tool is not None:
            package = _package_of(tool.module)
            found[name] = LockedTool(
                module=tool.module,
                package=package,
                version=None if package is None else importlib.metadata.version(package),
                fingerprint=schema_fingerprint(tool),
            )
    return PlanLock(tools=found)


def check_lock(
    plan: ExecutionPlan, registry: ToolRegistry, lock: PlanLock | None
) -> list[ValidationIssue]:
    """Compare the tools of a plan with what is on record of them; calls nothing.

    ``tool_missing`` (an error) says where a tool that is not registered lives;
    ``tool_changed`` (a warning) that it takes or gives something else than it did, or
    comes from another module. What the plan itself says under ``requires`` counts where the
    lock has nothing; what of it says no place is a warning, ``bad_field``. Each tool is told
    once, at the first node that calls it.
    """
    known, issues = known_tools(plan, lock)
    return [*issues, *(issue for _, issue in compared(plan, registry, known))]


def known_tools(
    plan: ExecutionPlan, lock: PlanLock | None
) -> tuple[dict[str, LockedTool], list[ValidationIssue]]:
    """Give what is known of a plan's tools: from its lock, else from its own ``requires``.

    The issues name what under ``requires`` is left aside, since it says no place.
    """
    found: dict[str, LockedTool] = {}
    issues = []
    for name, one in plan.requires.items():
        written = one.model_dump(exclude_none=True)
        try:
            found[name] = LockedTool.model_validate(written)
        except ValidationError as error:
            field = str(error.errors(include_url=False)[0]["loc"][0])
            message = f"what is required of tool {name!r} is left aside: its {field} cannot be {shown(written.get(field))}"
            issues.append(ValidationIssue(code="bad_field", message=message, severity="warning"))
    return {**found, **(lock.tools if lock else {})}, issues


def compared(
    plan: ExecutionPlan, registry: ToolRegistry, known: Mapping[str, LockedTool]
) -> Iterator[tuple[str, ValidationIssue]]:
    """Give each tool that is missing or is not what is known of it, with its issue."""
    for name, nodes in _users(plan, registry, known).items():
        if name not in known:
            continue
        tool = registry.get(name)
        issue = (
            _missing(name, nodes, known[name])
            if tool is None
            else _changed(name, nodes, known[name], tool)
        )
        if issue is not None:
            yield name, issue


def schema_fingerprint(tool: Tool) -> str:
    """Give a digest of what a tool takes and gives; titles and descriptions do not count."""
    shape = [_shape(tool.parameters), _shape(tool.output_schema)]
    text = json.dumps(shape, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def format_lock(lock: PlanLock) -> str:
    """Write a lock as text that is the same for the same tools."""
    record = lock.model_dump(mode="json", exclude_none=True)
    return json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(path: Path) -> PlanLock:
    """Read a lock file; raises PlanLoadError for one that cannot be read."""
    try:
        return PlanLock.model_validate_json(read_text(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise PlanLoadError(
            f"the lock {path.name!r} cannot be read: {where}: {first['msg']}",
            path=path,
            hint="delete it; the next green run writes it again",
        ) from error


def _users(
    plan: ExecutionPlan, registry: ToolRegistry, known: Mapping[str, Any] | None = None
) -> dict[str, list[str]]:
    """Give for each tool the ids of the nodes that call it, or may."""
    users: dict[str, list[str]] = {}
    names = dict.fromkeys([*registry.names(), *(known or ())])
    for node in plan.nodes:
        for name in _tools_of(node, names):
            users.setdefault(name, []).append(node.id)
    return users


def _tools_of(node: Any, names: Mapping[str, None]) -> Iterator[str]:
    if node.type != "delegate":
        if node.tool:
            yield node.tool
        return
    for pattern in node.tools or ():
        if pattern in names:
            yield pattern
        else:
            yield from (name for name in names if is_allowed(name, [pattern]))


def _missing(name: str, nodes: list[str], locked: LockedTool) -> ValidationIssue:
    return ValidationIssue(
        node_id=nodes[0],
        code="tool_missing",
        message=f"tool {name!r} is not registered; it lives in {locked.place()}{_also(nodes)}",
        fix=locked.way(),
    )


def _changed(name: str, nodes: list[str], locked: LockedTool, tool: Tool) -> ValidationIssue | None:
    now = tool.module
    moved = locked.module != now and _NOTEBOOK not in (locked.module, now)
    if locked.fingerprint and locked.fingerprint != schema_fingerprint(tool):
        said = f"tool {name!r} takes or gives something else than in the last green run: it is now {tool.signature_text}"
    elif moved and locked.module and now:
        said = f"tool {name!r} comes from module {now}, and it lived in {locked.place()}"
    else:
        return None
    return ValidationIssue(
        node_id=nodes[0],
        code="tool_changed",
        message=said + _also(nodes),
        severity="warning",
        fix="look at the calls; the next green run puts the tool on record as it is",
    )


def _also(nodes: list[str]) -> str:
    others = nodes[1:]
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return f" (also for {', '.join(others[:_SHOWN])}{more})" if others else ""


def _shape(schema: Any, *, names: bool = False) -> Any:
    """Give a schema without its words; the keys of a map of ``names`` are no words."""
    if isinstance(schema, list):
        return [_shape(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: one if key in _VALUES and not names else _shape(one, names=key in _NAMED and not names)
        for key, one in schema.items()
        if names or key not in _ANNOTATIONS
    }


def package_of(module: str) -> tuple[str | None, str | None]:
    """Give the distribution that a module came with, and its version; None for a notebook or a loose file."""
    package = _package_of(module)
    return package, None if package is None else importlib.metadata.version(package)


def _package_of(module: str) -> str | None:
    """Find the distribution that a module came with; none for a notebook or a loose file."""
    top, _, _ = module.partition(".")
    if not top or top == _NOTEBOOK:
        return None
    found = sorted(set(_packages(_installed()).get(top, ())))
    if len(found) > 1:  # a namespace that several fill
        found = [one for one in found if _has(one, module)]
    return found[0] if found else _named_as(top)


@functools.lru_cache(maxsize=1)
def _packages(installed: tuple[tuple[str, int], ...]) -> Mapping[str, list[str]]:
    """Name the distributions by module: a look into every one of them, made again after a change."""
    del installed
    return importlib.metadata.packages_distributions()


def _installed() -> tuple[tuple[str, int], ...]:
    """Tell one state of the installed packages from another: an installation touches its folder."""
    here = Path.cwd()
    folders = [Path(place) for place in sys.path if place]
    return tuple(
        (str(folder), folder.stat().st_mtime_ns)
        for folder in folders
        if folder != here and folder.is_dir()
    )


def _named_as(module: str) -> str | None:
    """Find a package by the name of its module: one that is edited in place lists no files."""
    try:
        name: str = importlib.metadata.distribution(module).name
    except importlib.metadata.PackageNotFoundError:
        return None
    return name


def _has(package: str, module: str) -> bool:
    path = module.replace(".", "/")
    files = {str(file) for file in importlib.metadata.files(package) or ()}
    return bool(files & {f"{path}.py", f"{path}/__init__.py"})
