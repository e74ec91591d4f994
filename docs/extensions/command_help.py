"""The directive ``command-help``: what a command prints for ``--help-all``, from the program itself.

    ```{command-help} lsar-jax fit lsar
    ```

The command runs in the process of the build, as ``lsar-jax ...`` or ``python -m ...`` would.
"""

import contextlib
import importlib
import io
import os
from typing import Any
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

__all__ = ["help_of", "setup"]


def help_of(command: str) -> str:
    """Returns what a command prints for ``--help-all``, in lines that fit on a page.

    Raises:
      ExtensionError: it ends with an error, or prints nothing.
    """
    name, *arguments = command.replace("lsar-jax", "lsar_jax").removeprefix("python -m ").split()
    module = importlib.import_module(name)
    main = getattr(module, "main", None) or importlib.import_module(f"{name}.__main__").main
    printed, status = io.StringIO(), None
    with contextlib.redirect_stdout(printed), patch.dict(os.environ, COLUMNS="88", NO_COLOR="1"):
        try:
            status = main([*arguments, "--help-all"])
        except SystemExit as ended:
            status = ended.code
    if status or not printed.getvalue():
        raise ExtensionError(f"{command} --help-all ended with {status}, and printed {printed.getvalue()!r}")
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


class CommandHelp(SphinxDirective):
    """Shows the help of the command that is its argument."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Returns the printed text as a block."""
        text = help_of(self.arguments[0])
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Adds the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
