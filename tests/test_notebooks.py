"""The notebooks: their cells and outputs, what they import, and that they run."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import CACHE
from tests.optional import need

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
# What a notebook may import: the library by its public name, and what the extra installs.
ALLOWED = {"IPython", "faiss", "flax", "jax", "lsar_jax", "matplotlib", "numpy", "optax", "scipy", "sklearn"}
# Bytes of a figure that are still quick to load.
LARGEST = 250_000


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def figures_of(output):
    data = output.get("data", {})
    return [data[kind] for kind in ("image/png", "image/svg+xml") if kind in data]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_belong_to_the_script(path):
    need("jupytext")
    need("nbformat")
    import nbformat

    from docs.extensions.notebooks import script_of

    script, notebook = script_of(path), nbformat.read(path.with_suffix(".ipynb"), 4)
    cells = ([(cell.cell_type, cell.source) for cell in of.cells] for of in (notebook, script))
    assert next(cells) == next(cells)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    text = "".join(output.text for output in outputs(notebook) if output.output_type == "stream")
    assert not re.search(r"Warning|(/root|/home|/tmp|/work)/", text)
    figures = [data for output in outputs(notebook) for data in figures_of(output)]
    assert 0 < max(map(len, figures)) * 3 / 4 < LARGEST


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_only_public_names_are_imported(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert not {name for name in imported if name.startswith("lsar_jax.")}
    assert {name.partition(".")[0] for name in imported} <= ALLOWED | set(sys.stdlib_module_names)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    need("jupytext")
    need("nbclient")
    if "import faiss" in path.read_text(encoding="utf-8"):
        need("faiss")
    from docs.extensions.notebooks import executed

    # eval is not in the wheel; a notebook that calls it is run in a checkout.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # A notebook computes more than it compiles: with all optimizations, unlike the tests.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "False")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(CACHE.with_name("xla-optimized")))
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    notebook = executed(path, tmp_path)
    assert not [output for output in outputs(notebook) if output.output_type == "error"]
    assert any(map(figures_of, outputs(notebook)))
