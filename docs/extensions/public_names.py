"""The public names of the library: autodoc documents each object once, at the shortest, and signatures call it so.

By itself, autodoc writes the module that defines a class (``lsar_jax.moments.moments.Moments``), and in place of a name
of ``lsar_jax.shapes`` all that it stands for.
"""

import importlib
import inspect
import re
from functools import cache
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

import lsar_jax

__all__ = ["public_names", "setup"]

# Public modules that no ``__all__`` names.
_FURTHER = (
    "lsar_jax.encoders",
    "lsar_jax.moments",
    "lsar_jax.mteb",
    "lsar_jax.report.explorer",
    "lsar_jax.transforms.scikit_learn",
    "lsar_jax.shapes",
    "lsar_jax.spec",
    "lsar_jax.objectives.cosine",
)


def public_names() -> set[str]:
    """Returns the full name of each public module and object, the shortest if it has several."""
    return {module.__name__ for module in _modules()} | set(_public())


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Returns the modules whose ``__all__`` is public, the shortest names first."""
    found = {module.__name__: module for module in (lsar_jax, *map(importlib.import_module, _FURTHER))}
    queue = list(found.values())
    while queue:
        module = queue.pop()
        inner = [value for name in module.__all__ if inspect.ismodule(value := getattr(module, name))]
        queue += [value for value in inner if value.__name__ not in found]
        found |= {value.__name__: value for value in inner}
    return tuple(sorted(found.values(), key=lambda module: (module.__name__.count("."), module.__name__)))


@cache
def _public() -> dict[str, Any]:
    """Returns documented name -> public object."""
    first: dict[tuple[str, int], tuple[str, Any]] = {}
    for module in _modules():
        for name in module.__all__:
            if not inspect.ismodule(value := getattr(module, name)):
                first.setdefault((name, id(value)), (f"{module.__name__}.{name}", value))
    return dict(first.values())


@cache
def _shapes() -> dict[str, str]:
    """Returns how autodoc writes the arrays that ``lsar_jax.shapes`` names -> a link to the name, the longest first."""
    shapes = {name: value for name, value in reversed(_public().items()) if ".shapes." in name}
    written = {stringify_annotation(value, "smart"): f"~{name}" for name, value in shapes.items()}
    return dict(sorted(written.items(), key=lambda item: -len(item[0]))) | {"jaxlib._jax.Array": "Array"}


@cache
def _types() -> dict[str, str]:
    """Returns where a public type is defined -> a link to its documented name."""
    types = {name: value for name, value in _public().items() if isinstance(value, type)}
    return {f"~{value.__module__}.{value.__qualname__}": f"~{name}" for name, value in types.items()}


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Writes a signature with public names; types without one are not linked."""
    if signature is None:
        return None
    text = f"{signature}\0{returns or ''}"
    for written, shape in _shapes().items():
        text = text.replace(written, shape)
    arguments, _, result = re.sub(r"~lsar_jax[\w.]+", _linked, text).partition("\0")
    return arguments, result


def _linked(written: re.Match[str]) -> str:
    name = written[0]
    return _types().get(name, name if name[1:] in _public() else name.rpartition(".")[2])


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skips what has a shorter name, and fields of tuples, which their class lists."""
    if type(obj).__name__ == "_tuplegetter":
        return True
    full = f"{app.env.current_document.autodoc_module}.{name}"
    return True if what == "module" and full not in _public() else None


def _links_back(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leaves out the links from source to pages that lead nowhere.

    viewcode takes all of a source file to be documented in one module; ``lsar_jax.Moments`` and
    ``lsar_jax.moments.check_number`` share a room, not a module.
    """
    if page.startswith("_modules/"):
        known = app.env.domains.python_domain.objects
        link = re.compile(r'<a class="viewcode-back" href="[^"#]*#([^"]+)">.*?</a>')
        context["body"] = link.sub(lambda found: found[0] if found[1] in known else "", context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    # Of overloads, the signature of the implementation is shown: it has the types of all.
    ModuleAnalyzer.overloads = property(lambda self: {}, lambda self, value: None)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
    app.connect("html-page-context", _links_back)
    return {"parallel_read_safe": True}
