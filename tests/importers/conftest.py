from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def foreign():
    """The mappings of foreign workflows, which stand beside these tests."""
    path = Path(__file__).with_name("foreign.py")
    spec = importlib.util.spec_from_file_location("foreign_workflows", path)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
