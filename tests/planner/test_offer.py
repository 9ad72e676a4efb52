from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from planbench import Tool, ToolRegistry
from planbench.planner.offer import offer


def tools(count=1, size=0):
    return [
        Tool.from_schema(
            f"tool_{i}",
            f"Do number {i}.\n{'more ' * size}",
            {"properties": {"x": {"type": "string", "description": "an x"}}, "required": ["x"]},
            lambda **arguments: arguments,
        )
        for i in range(count)
    ]


def test_a_tool_is_told_with_arguments_result_and_words():
    def fetch(report_id: str, limit: int | None = None) -> list[dict[str, int]]:
        """Fetch a report.

        Slow at night.
        """
        return []

    def wipe() -> None:
        """Remove all."""

    registry = ToolRegistry([fetch, Tool.from_function(wipe, effects="destructive")])
    catalog = offer(registry.list_tools(), "")

    assert catalog.text == (
        "- fetch(report_id: string, limit?: integer | null) -> {[key]: integer}[]\n"
        "    Fetch a report.\n"
        "    Slow at night.\n"
        "- wipe() -> any  [destructive]\n"
        "    Remove all."
    )
    assert (catalog.names, catalog.left_out, catalog.is_shortened) == (("fetch", "wipe"), (), False)


def test_signatures_of_any_kind_are_told():
    class Filter(BaseModel):
        field: str
        values: list[int] = Field(default_factory=list)

    def search(
        where: Filter,
        mode: Literal["all", "any"],
        limit: Annotated[int, Field(ge=1)] = 10,
        since: str | int | None = None,
        untyped=None,
        **more: Any,
    ) -> list[Filter]:
        """Search."""
        return [where]

    [line, _] = offer(ToolRegistry([search]).list_tools(), "").text.splitlines()

    assert line.startswith(
        "- search(where: {field: string, values?: integer[]}, "
        'mode: "all" | "any", limit?: integer = 10, since?: string | integer | null'
    )
    assert line.endswith("-> {field: string, values?: integer[]}[]")


def test_arguments_are_described():
    assert "    x: an x" in offer(tools(), "").text


def test_descriptions_give_way_before_tools_do():
    many = tools(20, size=100)

    brief, bare = offer(many, "", 2_000), offer(many, "", 800)

    assert len(brief.text) <= 2_000
    assert len(bare.text) <= 800
    assert "Do number 3." in brief.text
    assert "Do number 3." not in bare.text
    assert len(brief.names) == len(bare.names) == 20
    assert brief.is_shortened
    assert bare.is_shortened


def test_what_has_no_room_is_counted_and_named():
    catalog = offer(tools(100), "", 500)

    assert len(catalog.text) < 2_000
    assert 0 < len(catalog.names) < 100
    assert len(catalog.names) + len(catalog.left_out) == 100
    assert f"({len(catalog.left_out)} more tools have no room here: " in catalog.text
    assert catalog.left_out[0] in catalog.text


def test_what_the_objective_speaks_of_is_left_out_last():
    registry = ToolRegistry(tools(100))

    def compare_invoices(a: str, b: str) -> dict:
        """Compare two invoices."""
        return {}

    registry.register(compare_invoices)

    assert (
        "compare_invoices" in offer(registry.list_tools(), "Compare the invoice of May", 500).names
    )
    assert "compare_invoices" not in offer(registry.list_tools(), "", 500).names
