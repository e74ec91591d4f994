"""Code that is not the library's: optional packages, imported only when used, and functions in files of the user's."""

import functools
import importlib
import re
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

from lsar_jax.files import sha256

__all__ = ["import_extra", "import_function", "install_hint", "missing_extra"]

# A function in a file: FILE.py:FUNCTION, and the beginning of the file's digest if there is one.
_PLACE = re.compile(r"(.+\.py):(\w+)(?:@(\w+))?")

# Modules that the report and all evaluations import as they are, and their packages.
_OF_REPORT = {"matplotlib": "matplotlib", "sklearn": "scikit-learn", "threadpoolctl": "threadpoolctl"}


def import_extra(module: str, extra: str, what: str, package: str = "") -> Any:
    """Imports a module of an optional dependency, or raises an ImportError that says how to install it.

    Args:
      module: dotted name of the module.
      extra: the extra of ``lsar_jax`` that installs it.
      what: the feature that needs the module, quoted in the error.
      package: name of the package, if the module has another.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = missing_extra([package or module], extra, what)
        raise ImportError(f"{hint}{_unless_absent(error, module)}") from error


def import_function(place: str, what: str, kind: type) -> tuple[Callable[..., Any], str]:
    """Returns a function in a file of the user's, whose errors are ValueErrors on one line, and its pinned place.

    Args:
      place: ``FILE.py:FUNCTION``; or a pinned place, ``FILE.py:FUNCTION@DIGEST``, which names this content alone.
      what: the option or argument that gives it, for errors.
      kind: what the function must return.
    """
    path, name, pinned = found.groups() if (found := _PLACE.fullmatch(place)) else (place, "", None)

    def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except Exception as error:  # whatever the user's code raises
            at = [f", line {frame.lineno}" for frame in extract_tb(error.__traceback__) if frame.filename == path]
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(f"{what} {place}{''.join(at[-1:])}: {why}") from error

    digest = call(sha256, [Path(path)]).removeprefix("sha256:")[:12]
    function = call(_contents, path, digest).get(name)
    if not callable(function) or pinned not in (None, digest):
        raise ValueError(f"{what} {place}: {path}, of digest {digest}, has no such function; give FILE.py:FUNCTION")

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        result = call(function, *arguments, **options)
        if isinstance(result, kind):
            return result
        raise ValueError(f"{what} {place} returned a {type(result).__name__}, not a {kind.__name__}")

    return checked, f"{path}:{name}@{digest}"


@functools.cache
def _contents(path: str, digest: str) -> dict[str, Any]:
    """Runs a file, once for each digest of it, and returns what it defines."""
    sys.path.append(str(Path(path).resolve().parent))  # so that it imports files beside it
    return runpy.run_path(path, run_name=Path(path).stem)


def install_hint(error: ImportError, what: str) -> str:
    """The message of an error, or of ``missing_extra`` if the report or an evaluation lacks a package."""
    name = (error.name or "").partition(".")[0]
    if name not in _OF_REPORT:
        return str(error)
    extra = "report" if what.startswith("lsar-jax") else "eval"
    return f"{missing_extra([_OF_REPORT[name]], extra, what)}{_unless_absent(error, name)}"


def _unless_absent(error: ImportError, module: str) -> str:
    """The end of a message: why a module cannot be imported, unless its package is absent."""
    package, why = module.partition(".")[0], " ".join(str(error).split())
    absent = isinstance(error, ModuleNotFoundError) and error.name == package
    return "" if absent else f"; importing {package} failed: {why}"


def missing_extra(packages: Sequence[str], extra: str, what: str) -> ImportError:
    """The error that names the feature that needs ``packages``, and the command to install them."""
    return ImportError(
        f"{what} needs {' and '.join(packages)}: pip install 'lsar_jax[{extra}]' "
        f"(in a checkout: pip install -e '.[{extra}]')"
    )
