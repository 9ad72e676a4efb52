"""Saves runs when they end, as PLANBENCH_SAVE says: those that are red, or all of them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from planbench.errors import ConfigurationError, PlanbenchError
from planbench.plan.source import shown
from planbench.runtime.run_format import ENDING

if TYPE_CHECKING:
    from planbench.runtime.run import Run

SAVE_VARIABLE: Final = "PLANBENCH_SAVE"
_WHEN: Final = {"on-failure": False, "always": True}
_LONGEST: Final = 100
_logger = logging.getLogger(__name__)


class SavePolicy(NamedTuple):
    """Which runs are saved, and where."""

    always: bool
    folder: Path

    def wants(self, run: Run) -> bool:
        """Whether a run that has ended is to be saved; files hold runs of plans."""
        return run.state.agent is None and (self.always or run.verdict() == "red")


def save_policy() -> SavePolicy | None:
    """Read PLANBENCH_SAVE: ``on-failure:DIR`` or ``always:DIR``; None where it is not set.

    Raises ConfigurationError for anything else.
    """
    said = os.environ.get(SAVE_VARIABLE, "")
    if not said:
        return None
    when, colon, folder = said.partition(":")
    if when not in _WHEN or not colon or not folder.strip():
        raise ConfigurationError(
            f"{SAVE_VARIABLE} is {shown(said)}",
            hint="it takes on-failure:DIR or always:DIR, as on-failure:failed-runs",
        )
    path = Path(folder).expanduser()
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"{SAVE_VARIABLE} names {folder}, which is no folder")
    return SavePolicy(_WHEN[when], path)


async def save_at_end(run: Run, policy: SavePolicy) -> None:
    """Wait for the end of a run, and save it if that is wanted; ``run.saved_as`` then says where.

    What fails here is logged, and changes nothing of how the run ended.
    """
    await asyncio.wait([run.root])
    if not policy.wants(run):
        return
    try:
        run.saved_as = await asyncio.to_thread(_saved, run, policy.folder)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with the file, the run ended as it did
        text = error.message if isinstance(error, PlanbenchError) else repr(error)
        _logger.warning("run %s could not be saved: %s", run.run_id, text)


def _saved(run: Run, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{_file_name(run.plan.name)}-{_file_name(run.run_id)}"
    file = run.save(folder / f"{name}{ENDING}")
    told = f"saved {file}"
    page = folder / f"{name}.html"
    run.to_html(page)
    return f"{told} and {page.name}"


def _file_name(text: str) -> str:
    """Give a name as a piece of one that every system takes."""
    return re.sub(r"[^\w\-]+", "_", text, flags=re.ASCII).strip("_")[:_LONGEST] or "run"
