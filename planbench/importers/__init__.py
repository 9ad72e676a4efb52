"""Plans of other systems, read as plans of this one; what cannot be carried over is listed."""

from __future__ import annotations

from planbench.importers.imported import Imported, LeftOut
from planbench.importers.nestful import import_nestful, nestful_tools
from planbench.importers.steps import import_steps
from planbench.importers.wfcommons import import_wfcommons

__all__ = [
    "Imported",
    "LeftOut",
    "import_nestful",
    "import_steps",
    "import_wfcommons",
    "nestful_tools",
]
