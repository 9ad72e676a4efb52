from __future__ import annotations

import subprocess
import sys

import planbench.tools
from planbench.tools import Tool, ToolRegistry

HEAVY = ("pandas", "pyarrow", "jsonschema", "referencing", "IPython", "networkx", "openai", "rich")
PROGRAM = """
import sys
from planbench.tools import ToolRegistry, tool

@tool
def f(a: int, b: "list[str] | None" = None) -> dict:
    return {}

ToolRegistry([f]).catalog()
f.validate({"a": "1"})
f.check_arguments({"a": "x"}, lambda value: False)
print(sorted(set(sys.modules) & set(sys.argv[1:])))
"""


def test_tools_of_functions_load_no_heavy_library():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *HEAVY], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_no_submodule_hides_a_public_name():
    names = {info for info in vars(planbench.tools) if not info.startswith("_")}
    assert set(planbench.tools.__all__) <= names
    assert callable(planbench.tools.tool)
    assert (Tool.__module__, ToolRegistry.__module__) == (
        "planbench.tools.definition",
        "planbench.tools.registry",
    )
