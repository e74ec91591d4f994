"""Configuration of the site: ``sphinx-build -W --keep-going -b html docs build/site``.

Files that are kept elsewhere in the repository (``extensions/placed_pages.py``) are copied into ``docs`` first.
No notebook is executed, and nothing is downloaded.
"""

import os
import sys
from pathlib import Path

_DOCS = Path(__file__).parent
sys.path[:0] = [str(_DOCS.parent), str(_DOCS / "extensions")]

from sphinx.domains.python._object import PyObject

import lsar_jax

# Nothing is computed here, and no accelerator is needed.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

project = "lsar_jax"
author = copyright = "the lsar_jax authors"
version = release = lsar_jax.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "placed_pages",
    "public_names",
    "command_help",
    "picture_text",
]
exclude_patterns = ["extensions", "images", "_build"]

# A reference to a name of the library must lead to its page. No other project's pages are linked.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!lsar_jax\.).*")]

nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "special-members": "__call__"}
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# The types of attributes stand in the signature of the class.
napoleon_attr_annotations = False
python_maximum_signature_line_length = 88
# Names in text are set as code, without a role.
default_role = "code"

copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"lsar_jax {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# The attributes of a class are called so, as in the docstrings.
for _field in PyObject.doc_field_types:
    if _field.name == "variable":
        _field.label = "Attributes"
