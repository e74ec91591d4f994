"""The docstrings are the reference: their examples run, and every public name has one, its shapes and its errors."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
import typing

import jax
import jaxtyping
import numpy as np
import pytest

import lsar_jax

# Every name in their ``__all__`` is public.
PUBLIC = (
    "lsar_jax", "lsar_jax.transforms", "lsar_jax.retrieval", "lsar_jax.retrieval.preference", "lsar_jax.mining",
    "lsar_jax.geometry", "lsar_jax.moments", "lsar_jax.encoders", "lsar_jax.report.explorer",
    "lsar_jax.embeddings", "lsar_jax.corpora", "lsar_jax.corpora.builders",
    "lsar_jax.objectives.align", "lsar_jax.objectives.disentangle", "lsar_jax.objectives.objective",
    "lsar_jax.objectives.tagging", "lsar_jax.objectives.parsing", "lsar_jax.objectives.cosine", "lsar_jax.languages",
    "lsar_jax.mesh", "lsar_jax.spec", "lsar_jax.processes", "lsar_jax.mteb",
    "lsar_jax.transforms.scikit_learn",
)  # fmt: skip
# A user's program begins with these; the rest may have an example.
STARTS = ("lsar_jax", "lsar_jax.mining", "lsar_jax.retrieval", "lsar_jax.transforms.fit_")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def functions():
    """Yields (name, function) for every public one, once, by the first module that has it."""
    seen = set()
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and not inspect.isclass(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


FUNCTIONS = dict(functions())


def examples():
    """Yields the doctest of each docstring of the library; jax, jnp, lj and np are imported."""
    names = {"jax": jax, "jnp": jax.numpy, "lj": lsar_jax, "np": np}
    finder = doctest.DocTestFinder()
    for found in pkgutil.walk_packages(lsar_jax.__path__, "lsar_jax."):
        if not re.search(r"\.(cli|__main__)\b", found.name):
            yield from finder.find(importlib.import_module(found.name), globs=names)
    yield from finder.find(lsar_jax, globs=names)


EXAMPLES = {test.name: test for test in examples() if test.examples}
# Loading the encoder takes seconds, and so does importing TensorFlow Datasets.
SLOW = re.compile(r"\b(load_encoder|prepare)\(")
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if any(SLOW.search(one.source) for one in test.examples) else [])
    for name, test in EXAMPLES.items()
]


@pytest.mark.usefixtures("bundled_once")
@pytest.mark.parametrize("name", CASES)
def test_examples_run(name):
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(EXAMPLES[name], out=report.append)
    assert not "".join(report)


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if name.rpartition(".")[0] in STARTS or name.startswith(STARTS[-1])]
)
def test_functions_that_a_program_begins_with_have_an_example(name):
    assert "\nExample:\n" in inspect.getdoc(FUNCTIONS[name])


def array_shapes(annotation):
    """Returns the shapes of the arrays in an annotation, scalars left out."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return {annotation.dim_str.strip()} - {""}
    return {shape for part in typing.get_args(annotation) for shape in array_shapes(part)}


def takes_arrays(function):
    return any(array_shapes(one.annotation) for one in inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", [name for name, value in FUNCTIONS.items() if takes_arrays(value)])
def test_functions_of_arrays_name_shapes(name):
    assert re.search(r"``\[[^\]`]*\]``", inspect.getdoc(FUNCTIONS[name]))


def raised(function):
    """Returns the names of the errors that the body of a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    every = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    errors = (error.func for error in every if isinstance(error, ast.Call))
    return {error.id for error in errors if isinstance(error, ast.Name) and error.id.endswith("Error")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_documented(name):
    doc = inspect.getdoc(FUNCTIONS[name])
    # A check that does nothing else says so in its first line.
    assert all(f"\n  {error}: " in doc or doc.startswith(f"Raises {error} ") for error in raised(FUNCTIONS[name]))
