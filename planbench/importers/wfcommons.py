"""Scientific workflows in the format of WfCommons: tasks with parents, seen on real machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from planbench.importers.imported import Imported, Importing
from planbench.plan.placeholders import escape

if TYPE_CHECKING:
    from planbench.plan.source import Route

_TASK: Final = {"id", "name", "parents", "children", "command", "program"}
_HISTORY: Final = {"runtime_s", "runtimeInSeconds", "runtime"}
_COUNTS: Final = {"n_tasks", "n_edges", "depth", "max_fan_out", "max_fan_in"}
_PLAN: Final = {"name", "description", "workflow", "tasks", "specification", *_COUNTS}


def import_wfcommons(
    source: Any, *, name: str | None = None, seconds: str | None = None
) -> Imported:
    """Read a workflow; each task calls the tool that has the task's program as its name.

    ``seconds`` names an argument that gets the measured runtime, as a stand-in for the
    work. Tasks pass files and no values, so edges only say what waits. ``source`` is text,
    a Path or the data. Raises PlanInvalid that names what is wrong.
    """
    work = Importing(source)
    record = work.value
    nodes: list[dict[str, Any]] = []
    if work.need(dict, "the workflow", record, ()):
        work.leave_out_rest("workflow", record, _PLAN, "about the source or the past run")
        tasks, path = _tasks(record)
        runtimes = _runtimes(record)
        if work.need(list, "tasks", tasks, path):
            nodes = _Tasks(work, path, runtimes, seconds).nodes(tasks)
    else:
        record = {}
    plan = work.plan(
        {
            "name": name or record.get("name") or "workflow",
            "objective": str(record.get("description") or ""),
            "nodes": nodes,
        }
    )
    return Imported(plan, tuple(work.report))


def _tasks(record: dict[str, Any]) -> tuple[Any, Route]:
    """Find the tasks: at the top, in ``workflow`` (to 1.4), in its specification (from 1.5)."""
    for path in (("tasks",), ("workflow", "specification", "tasks"), ("workflow", "tasks")):
        found: Any = record
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return found, path
    return None, ("tasks",)


def _runtimes(record: dict[str, Any]) -> dict[str, Any]:
    """Give the measured runtimes, which version 1.5 keeps apart from the tasks."""
    found: Any = record
    for part in ("workflow", "execution", "tasks"):
        found = found.get(part) if isinstance(found, Mapping) else None
    if not isinstance(found, list):
        return {}
    return {
        str(task.get("id")): task.get("runtimeInSeconds")
        for task in found
        if isinstance(task, Mapping)
    }


class _Tasks:
    def __init__(
        self, work: Importing, path: Route, runtimes: dict[str, Any], seconds: str | None
    ) -> None:
        self.work = work
        self.path = path
        self.runtimes = runtimes
        self.seconds = seconds
        self.ids: dict[str, str] = {}
        self.unused: dict[str, int] = {}

    def nodes(self, tasks: list[Any]) -> list[dict[str, Any]]:
        """Give the nodes, in the order of the tasks."""
        work = self.work
        found: list[tuple[str, Route, dict[str, Any]]] = []
        for place, task in enumerate(tasks):
            path = (*self.path, place)
            if not work.need(dict, f"task {place + 1}", task, path):
                continue
            key = task.get("id", task.get("name"))
            if not work.need(str, f"task {place + 1}: id", key, path):
                continue
            if key in self.ids:
                work.problem("duplicate_id", f"two tasks have the id {key!r}", path)
                continue
            self.ids[key] = work.node_id(key, path)
            found.append((key, path, task))
        needs = self._needs(found)
        nodes = [self._node(key, task, needs[key]) for key, _, task in found]
        for field, count in self.unused.items():
            why = "measured in the past, or about files and machines"
            work.leave_out(f"{count} tasks", field, why)
        return nodes

    def _needs(self, tasks: list[tuple[str, Route, dict[str, Any]]]) -> dict[str, dict[str, None]]:
        """Give what each task waits for, said by its parents or by their children."""
        needs: dict[str, dict[str, None]] = {key: {} for key, _, _ in tasks}
        for key, path, task in tasks:
            for field in ("parents", "children"):
                for other in task.get(field) or ():
                    if other not in self.ids:
                        message = f"task {key!r} names {other!r} in {field}, and there is none"
                        self.work.problem("unknown_dependency", message, (*path, field))
                    elif field == "parents":
                        needs[key][self.ids[other]] = None
                    else:
                        needs[other][self.ids[key]] = None
        return needs

    def _node(self, key: str, task: dict[str, Any], needs: dict[str, None]) -> dict[str, Any]:
        command: Any = task.get("command")
        command = command if isinstance(command, Mapping) else {}
        tool = command.get("program") or task.get("program") or task.get("name") or key
        args: dict[str, Any] = {}
        if isinstance(words := command.get("arguments"), list) and words:
            args["arguments"] = [escape(str(word)) for word in words]
        measured = next((task[name] for name in _HISTORY if name in task), self.runtimes.get(key))
        if self.seconds is not None:
            args[self.seconds] = measured or 0
        for field in task:
            if field not in _TASK and not (self.seconds is not None and field in _HISTORY):
                self.unused[field] = self.unused.get(field, 0) + 1
        return {"id": self.ids[key], "tool": str(tool), "args": args, "depends_on": list(needs)}
