"""Signatures as they are written in the source: ``x: Mapping[str, Embeddings | Moments], rank: int | None = None``.

At run time an alias such as ``Embeddings`` is a union of jaxtyping's classes. autodoc would print that union, and not
the alias, which has a page. Names of the library are turned into links to where they are documented; each object is
documented once, at its shortest public name. The directive ``constants`` describes the constants and aliases of a
module in the same way, since autodoc does not find those that a package takes from its modules.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import lsar_jax

__all__ = ["Constants", "documented_modules", "public_names", "setup"]

# Public modules that no ``__all__`` names.
_FURTHER = (
    "lsar_jax.encoders",
    "lsar_jax.moments",
    "lsar_jax.mteb",
    "lsar_jax.shapes",
    "lsar_jax.spec",
    "lsar_jax.corpora.labelled",
    "lsar_jax.objectives.cosine",
)
# Subscripts of these hold strings that are not annotations.
_SHAPED = {"Literal", "Float", "Int", "Bool", "UInt32", "Key", "Shaped"}
# Characters of a constant that is shown.
_SHORT = 120


def documented_modules() -> tuple[ModuleType, ...]:
    """Returns the modules whose ``__all__`` is public, the shortest names first."""
    found = {lsar_jax.__name__: lsar_jax, **{name: importlib.import_module(name) for name in _FURTHER}}
    todo = list(found.values())
    while todo:
        module = todo.pop()
        for inner in filter(inspect.ismodule, (getattr(module, name) for name in module.__all__)):
            if inner.__name__ not in found:
                found[inner.__name__] = inner
                todo.append(inner)
    return tuple(sorted(found.values(), key=lambda module: (module.__name__.count("."), module.__name__)))


def public_names() -> set[str]:
    """Returns the full name of each public object, the shortest if it has several, and that of each public module."""
    return {module.__name__ for module in documented_modules()} | set(_public().values())


@cache
def _public() -> dict[tuple[str, int], str]:
    """Returns the documented name of each public object, by its own name and identity."""
    found: dict[tuple[str, int], str] = {}
    for module in documented_modules():
        for name in module.__all__:
            if not inspect.ismodule(value := getattr(module, name)):
                found.setdefault((name, id(value)), f"{module.__name__}.{name}")
    return found


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _definition(module: str, qualname: str) -> ast.AST | None:
    """Returns the class or function of a qualified name, or None if the source does not show it."""
    node: ast.AST = _tree(module)
    for part in qualname.split("."):
        inner = [one for one in getattr(node, "body", []) if getattr(one, "name", None) == part]
        if not inner:
            return None
        node = inner[-1]
    return node


def _assigned(module: str, name: str) -> tuple[str, ast.expr] | None:
    """Returns what a module of the library assigns to a name, and the module that does."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return module, node.value
        # A package that imports one of its modules imports it from itself.
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("lsar_jax") and node.module != module:
            for one in node.names:
                if name == (one.asname or one.name):
                    return _assigned(str(node.module), one.name)
    return None


class _Names(ast.NodeTransformer):
    """Links the public names of an annotation, and writes out the aliases that have no page."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.values = vars(importlib.import_module(module))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A string is an annotation too: ``"Transform"``."""
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """But not within ``Literal`` and ``Float[Array, "row dim"]``."""
        node.value = self.visit(node.value)
        if ast.unparse(node.value) not in _SHAPED:
            node.slice = self.visit(node.slice)
        elif isinstance(node.slice, ast.Tuple) and isinstance(shape := node.slice.elts[-1], ast.Constant):
            # ``" dim"``, whose space says that it is no forward reference.
            shape.value = shape.value.strip()
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name of the library, or of another."""
        if node.id not in self.values:
            return node
        documented = _public().get((node.id, id(self.values[node.id])))
        if documented:
            return ast.UnaryOp(ast.Invert(), ast.parse(documented, mode="eval").body)
        alias = _assigned(self.module, node.id) if self.module.startswith("lsar_jax") else None
        if alias is None or isinstance(alias[1], ast.Call):
            return node
        return _Names(alias[0]).visit(alias[1])


def _annotation(node: ast.expr, module: str) -> ast.expr:
    # A copy, because the tree of a module is used again.
    return _Names(module).visit(ast.parse(ast.unparse(node), mode="eval").body)


def _of_function(node: ast.FunctionDef, module: str, *, bound: bool) -> tuple[str, str]:
    given = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0].args
    if bound:
        (given.posonlyargs or given.args).pop(0)
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    for one in every:
        if one is not None and one.annotation is not None:
            one.annotation = _annotation(one.annotation, module)
    for defaults in (given.defaults, given.kw_defaults):
        defaults[:] = [_default(one, module) for one in defaults]
    returns = ast.unparse(_annotation(node.returns, module)) if node.returns else ""
    return f"({ast.unparse(given)})", returns


def _default(node: ast.expr | None, module: str) -> ast.expr | None:
    """Returns a default, with the value of a named constant in place of its name."""
    named = _assigned(module, node.id) if isinstance(node, ast.Name) else None
    return named[1] if named and isinstance(named[1], ast.Constant) else node


def _fields(kind: type) -> Iterator[tuple[str, str]]:
    """Yields the annotated names of a class and of its bases, and each with its annotation and default."""
    for one in reversed(kind.__mro__):
        node = _definition(one.__module__, one.__qualname__) if one.__module__.startswith("lsar_jax") else None
        for field in getattr(node, "body", []):
            if isinstance(field, ast.AnnAssign):
                name, kept = ast.unparse(field.target), ast.unparse(_annotation(field.annotation, one.__module__))
                yield name, f"{name}: {kept}" + (f" = {ast.unparse(field.value)}" if field.value else "")


def _of_class(kind: type) -> tuple[str, str] | None:
    node = _definition(kind.__module__, f"{kind.__qualname__}.__init__")
    if isinstance(node, ast.FunctionDef):
        return _of_function(node, kind.__module__, bound=True)[0], ""
    written = dict(_fields(kind))
    names = list(inspect.signature(kind).parameters)
    if not names or set(names) - set(written):
        return None
    return f"({', '.join(written[name] for name in names)})", ""


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    if what in ("class", "exception"):
        return _of_class(obj) if isinstance(obj, type) and obj.__module__.startswith("lsar_jax") else None
    if what not in ("function", "method"):
        return None
    function = inspect.unwrap(getattr(obj, "__func__", obj))
    if not getattr(function, "__module__", "").startswith("lsar_jax"):
        return None
    node = _definition(function.__module__, function.__qualname__)
    if not isinstance(node, ast.FunctionDef):
        return None
    static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
    return _of_function(node, function.__module__, bound=what == "method" and not static)


class Constants(SphinxDirective):
    """Describes what the ``__all__`` of a module names and its source assigns: by its source and the comment before."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns a description of each."""
        module = self.arguments[0]
        found = {name: _assigned(module, name) for name in importlib.import_module(module).__all__}
        return [node for name, at in found.items() if at for node in self._described(module, name, *at)]

    def _described(self, public: str, name: str, module: str, value: ast.expr) -> list[nodes.Node]:
        lines = inspect.getsource(importlib.import_module(module)).splitlines()[: value.lineno - 1]
        comment = list(takewhile(lambda line: line.startswith("#"), reversed(lines)))[::-1]
        if not comment:
            raise ExtensionError(f"{module}: put a comment that says what {name} is before its assignment")
        written = ast.unparse(value)
        options = [f":module: {public}", *([f":value: {written}"] if len(written) <= _SHORT else [])]
        about = [line.lstrip("#: ") for line in comment]
        return self.parse_text_to_nodes("\n   ".join([f".. py:data:: {name}", *options, "", *about]))


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skips modules, constants, what has a shorter name, and fields of tuples, which their class lists."""
    if inspect.ismodule(obj) or type(obj).__name__ == "_tuplegetter":
        return True
    module = app.env.current_document.autodoc_module
    if what != "module" or (_public().get((name, id(obj))) == f"{module}.{name}" and not _assigned(module, name)):
        return None
    return True


def _links_back(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leaves out the links from source to pages that lead nowhere.

    viewcode takes all of a source file to be documented in one module; ``lsar_jax.Moments`` and
    ``lsar_jax.moments.too_few`` share a room, not a module.
    """
    if page.startswith("_modules/"):
        known = app.env.domains.python_domain.objects
        link = re.compile(r'<a class="viewcode-back" href="[^"#]*#([^"]+)">.*?</a>')
        context["body"] = link.sub(lambda found: found[0] if found[1] in known else "", context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    app.connect("autodoc-process-signature", _signature)
    app.connect("html-page-context", _links_back)
    app.add_directive("constants", Constants)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
