"""What an import costs, what is public, what the README says."""

import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lsar_jax as lj

README = Path(__file__).parents[1] / "README.md"


def test_import_is_light():
    # What is used by some must not be paid for by all.
    heavy = [
        "transformers",
        "torch",
        "tensorflow_datasets",
        "matplotlib",
        "sklearn",
        "scipy.stats",
        "train",
        "eval",
    ]
    code = f"import sys, lsar_jax; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_version():
    assert version("lsar_jax") == lj.__version__


@pytest.mark.parametrize(
    "module", [lj, lj.transforms, lj.retrieval, lj.corpora, lj.languages], ids=lambda m: m.__name__
)
def test_public_names_are_documented(module):
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{module.__name__}.{name}"


def blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


@pytest.mark.parametrize("code", [b for b in blocks() if "intfloat/" not in b])
def test_readme_examples_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


def test_readme_has_examples():
    assert len(blocks()) >= 3
