"""The Jupyter server extension: it lists the plans of the server's folder.

``pip install planbench`` enables it. Nothing else in planbench imports
``jupyter_server``.
"""

from __future__ import annotations

from typing import Any

from planbench.server.extension import PlanbenchApp

__all__ = ["PlanbenchApp"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "planbench.server", "app": PlanbenchApp}]
