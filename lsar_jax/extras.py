"""Optional packages, imported only when used, with a uniform message if one is missing."""

import importlib
from collections.abc import Sequence
from typing import Any

__all__ = ["import_extra", "install_hint", "missing_extra"]

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
