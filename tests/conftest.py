"""What holds for every test."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import settings

# Machines are noisy: speed is a matter of benchmarks, and no test fails for being slow.
settings.register_profile("planbench", deadline=None)
settings.load_profile("planbench")

# No test may leave a journal in the folder that it happens to run in; those about it say where.
os.environ["PLANBENCH_STORE"] = "memory"


@pytest.fixture(autouse=True)
def _loggers_speak():
    """Libraries that configure logging switch off the loggers that are there already."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith("planbench") and isinstance(logger, logging.Logger):
            logger.disabled = False
