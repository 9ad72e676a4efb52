"""What holds for every test."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _loggers_speak():
    """Libraries that configure logging switch off the loggers that are there already."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith("planbench") and isinstance(logger, logging.Logger):
            logger.disabled = False
