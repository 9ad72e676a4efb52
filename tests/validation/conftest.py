from typing import Literal, TypedDict

import pytest

from planbench.tools import Tool, ToolRegistry
from planbench.validation import check_plan


class Filter(TypedDict):
    field: str
    limit: int


class Report(TypedDict):
    id: str
    findings: list[str]


class Listing(TypedDict):
    reports: list[Report]
    total: int
    extra: dict


def list_reports(date: str = "") -> Listing:
    return {"reports": [], "total": 0, "extra": {}}


def fetch(key: str, filters: list[Filter] | None = None, limit: int = 10) -> dict:
    return {}


def strict(mode: Literal["a", "b"] = "a", n: int = 0) -> Report:
    return {"id": "", "findings": []}


def write(path: str) -> None:
    return None


@pytest.fixture(scope="session")
def registry():
    tools = [Tool.from_function(one) for one in (list_reports, fetch, strict)]
    tools.append(Tool.from_function(write, effects="write"))
    tools.append(Tool.from_function(write, name="write_once", effects="write", idempotent=True))
    return ToolRegistry(tools)


@pytest.fixture(scope="session")
def check(registry):
    def checked(text, **options):
        return check_plan(text, options.pop("registry", registry), **options)

    return checked


@pytest.fixture(scope="session")
def told(check):
    """Tells each issue as code, node, line and column."""

    def found(text, **options):
        return [(i.code, i.node_id, i.line, i.column) for i in check(text, **options).issues]

    return found


@pytest.fixture(scope="session")
def one(check):
    def only(text, **options):
        (issue,) = check(text, **options).issues
        return issue

    return only


@pytest.fixture(scope="session")
def node():
    """Writes a node; in the first node of a plan, line 4 is its id."""

    def written(*lines):
        return "  - " + "\n    ".join(lines) + "\n"

    return written
