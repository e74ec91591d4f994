"""Pages whose files are kept outside ``docs``: the notebooks, CONTRIBUTING.md and CHANGELOG.md.

Sphinx reads only what is below its source folder, so they are copied into it when a build starts, to places that git
ignores. Links in every page are written for GitHub, relative to where the file is kept; a link to a page with another
place in the site is rewritten as the page is read. A link to any other file of the repository, such as a module,
becomes a download.
"""

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

__all__ = ["place", "setup", "site_links"]

_ROOT = Path(__file__).parents[2]
# Files and their pages, relative to the repository.
_NOTEBOOKS = {f"notebooks/{path.name}": f"docs/tutorials/{path.name}" for path in _ROOT.glob("notebooks/*.ipynb")}
_PAGES = {"CONTRIBUTING.md": "docs/contributing.md", "CHANGELOG.md": "docs/changelog.md", **_NOTEBOOKS}
_FILES = {page: file for file, page in _PAGES.items()}
# README.md has no page of its own.
_SHOWN = {**_PAGES, "README.md": "docs/index.md"}
# The target of ``[text](target)``, of ``![text](target)`` and of ``[name]: target``.
_TARGET = re.compile(r"(?<=\]\()[^)\s#:]+|(?<=\]: )[^\s#:]+")


def site_links(text: str, page: str) -> str:
    """Returns the text of a page with its relative links as they are in the site.

    Args:
      text: markdown, or a notebook.
      page: place of the page, relative to the repository.
    """

    def in_site(link: re.Match[str]) -> str:
        file = os.path.normpath(os.path.join(os.path.dirname(_FILES.get(page, page)), link[0]))
        if not (_ROOT / file).exists():
            return link[0]
        return os.path.relpath(_SHOWN.get(file, file), os.path.dirname(page))

    return _TARGET.sub(in_site, text)


def place(app: Sphinx) -> None:
    """Copies the files to their pages, and removes copies of notebooks that are gone."""
    for old in _ROOT.glob("docs/tutorials/*.ipynb"):
        if f"docs/tutorials/{old.name}" not in _FILES:
            old.unlink()
    for file, page in _PAGES.items():
        content = (_ROOT / file).read_bytes()
        # A page that has not changed is not read again.
        if not (_ROOT / page).exists() or (_ROOT / page).read_bytes() != content:
            (_ROOT / page).write_bytes(content)


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = site_links(source[0], Path(app.env.doc2path(docname)).relative_to(_ROOT).as_posix())


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    app.connect("builder-inited", place)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
