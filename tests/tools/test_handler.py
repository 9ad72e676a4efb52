"""Tools handed to an engine as one object."""

import pytest

from planbench.errors import ConfigurationError
from planbench.runtime import Engine
from planbench.tools import ToolHandler, ToolRegistry


def one() -> int:
    return 1


def test_the_tools_of_a_handler_become_those_of_the_engine():
    engine, registry = Engine(), ToolRegistry([one])
    handler = ToolHandler(registry)

    assert handler.attach(engine) is handler
    assert engine.registry is registry


def test_a_handler_takes_a_list_of_functions():
    assert ToolHandler([one]).registry.names() == ["one"]


def test_what_has_no_registry_is_refused():
    with pytest.raises(ConfigurationError, match="attach"):
        ToolHandler([one]).attach(object())
