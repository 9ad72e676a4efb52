"""A notebook executed without a browser, with values for its parameters."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from planbench.errors import CommandError, ConfigurationError, PlanbenchError

if TYPE_CHECKING:
    from collections.abc import Mapping

CELL_SECONDS: Final = 300
# Installed they are beside the examples, in a clone at its root.
_PACKAGE: Final = Path(__file__).parents[1]
PLACES: Final = (_PACKAGE / "examples", _PACKAGE.parent / "notebooks")


def find(name: str) -> Path:
    """Find a notebook that comes with planbench; raises CommandError."""
    for place in PLACES:
        if (place / name).is_file():
            return place / name
    raise CommandError(
        f"the notebook {name} is not there", hint="it comes with a clone of planbench"
    )


def execute(source: Path, target: Path, parameters: Mapping[str, Any]) -> None:
    """Execute a notebook in the folder of ``target`` and write it there, also when a cell fails.

    Raises ConfigurationError where nbclient or ipykernel is not installed, and
    PlanbenchError that names the cell that failed.
    """
    nbformat, nbclient, _ = map(_optional, ("nbformat", "nbclient", "ipykernel"))
    notebook = nbformat.read(source, as_version=4)
    if parameters:
        notebook.cells.insert(_place(notebook), _parameters_cell(nbformat, parameters))
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        resources={"metadata": {"path": str(target.parent)}},
    )
    # What the kernel itself says is worth reading only when it breaks off.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            client.execute(stderr=said)
        except nbclient.exceptions.CellExecutionError as error:
            raise PlanbenchError(
                f"a cell of {source.name} failed: {error.ename}: {error.evalue}",
                hint=f"its output is in {target}",
            ) from error
        except (nbclient.exceptions.DeadKernelError, nbclient.exceptions.CellTimeoutError) as error:
            said.seek(0)
            last = "".join(said.readlines()[-5:]).strip()
            raise PlanbenchError(
                f"{source.name} was not executed to its end: {error}", hint=last or None
            ) from error
        finally:
            nbformat.write(notebook, target)


def _optional(name: str) -> Any:
    """Import what only an extra brings."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the notebook cannot be executed: {error.name} is not installed",
            hint="pip install 'planbench[lab]'",
        ) from error


def _place(notebook: Any) -> int:
    """Find the place behind the cell with the tag ``parameters``, as papermill does."""
    tagged = (
        number
        for number, cell in enumerate(notebook.cells, 1)
        if "parameters" in cell.metadata.get("tags", ())
    )
    return next(tagged, 0)


def _parameters_cell(nbformat: Any, parameters: Mapping[str, Any]) -> Any:
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    return nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
