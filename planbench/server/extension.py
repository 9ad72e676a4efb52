"""The extension as Jupyter Server configures and loads it."""

from __future__ import annotations

from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from traitlets import Unicode

from planbench.server.handlers import PlansHandler


class PlanbenchApp(ExtensionApp):
    """Lists plans at ``/planbench/plans``; ``c.PlanbenchApp.plans_dir`` says where they are."""

    name = "planbench"
    plans_dir = Unicode(
        "plans", help="The folder of the plans, seen from the root folder of the server."
    ).tag(config=True)

    def initialize_handlers(self) -> None:
        """Add the routes to those of the server."""
        self.handlers.append(
            (r"/planbench/plans/?", PlansHandler, {"folder": self.folder, "shown": self.plans_dir})
        )

    @property
    def folder(self) -> Path:
        """Where the plans are on disk."""
        root = "." if self.serverapp is None else self.serverapp.root_dir
        return Path(root).expanduser() / self.plans_dir
