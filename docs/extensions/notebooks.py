"""Executes the notebooks: ``python -m docs.extensions.notebooks [NAME ...]`` writes their outputs anew.

A notebook is a script in percent format, which is what one edits, and an ``.ipynb`` of the same cells with outputs.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

__all__ = ["FOLDER", "executed", "main", "script_of", "tidied"]

FOLDER = Path(__file__).parents[2] / "notebooks"


def script_of(path: Path) -> Any:
    """The notebook of a script, without outputs."""
    notebook = jupytext.read(path)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # else drawn at random
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def executed(path: Path, folder: Path) -> Any:
    """The notebook of a script with its outputs, run in a folder."""
    notebook = script_of(path)
    # Commands of a notebook are those of this environment, as if it had been activated.
    bin = str(Path(sys.executable).parent)
    if bin not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((bin, os.environ["PATH"]))
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    return tidied(notebook)


def tidied(notebook: Any) -> Any:
    """The notebook without times of day, and with what was printed in pieces in one."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        joined = []
        for output in cell.get("outputs", ()):
            if joined and output.output_type == joined[-1].output_type == "stream" and output.name == joined[-1].name:
                joined[-1].text += output.text
            else:
                joined.append(output)
        if cell.cell_type == "code":
            cell.outputs = joined
    return notebook


def main(names: Sequence[str]) -> None:
    """Executes the named notebooks, or all, in the root of the repository."""
    for path in sorted(FOLDER.glob("*.py")):
        if not names or path.stem in names:
            nbformat.write(executed(path, FOLDER.parent), path.with_suffix(".ipynb"))
            print(path.stem, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
