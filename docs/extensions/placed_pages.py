"""Pages whose files are kept outside ``docs``: the notebooks, CONTRIBUTING.md and CHANGELOG.md.

Sphinx reads only what is below its source folder, so they are copied into it when a build starts, to places that git
ignores. Links in every page are written for GitHub, relative to where the file is kept; a link to a page with another
place in the site is rewritten as the page is read. A link to any other file of the repository, such as a module,
becomes a download.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx

__all__ = ["PLACED", "place", "setup", "site_links"]

_DOCS = Path(__file__).parents[1]
_ROOT = _DOCS.parent

# Files that are not notebooks, and their pages, both relative to the repository.
PLACED = {"CONTRIBUTING.md": "docs/contributing.md", "CHANGELOG.md": "docs/changelog.md"}
# Files that have no page of their own, and the page that stands for them.
_INSTEAD = {"README.md": "docs/index.md"}
_NOTEBOOKS, _TUTORIALS = "notebooks", "docs/tutorials"
# The target of ``[text](target)``, of ``![text](target)`` and of ``[name]: target``.
_TARGET = re.compile(r"(?<=\]\()(?P<inline>[^)\s#:]+)|(?<=\]: )(?P<named>[^\s#:]+)")


def _page(file: str) -> str:
    """Returns the place in the site of a file of the repository, both relative to the repository."""
    path = PurePosixPath(file)
    if str(path.parent) == _NOTEBOOKS and path.suffix == ".ipynb":
        return f"{_TUTORIALS}/{path.name}"
    return PLACED.get(file) or _INSTEAD.get(file) or file


def _file(page: str) -> str:
    """Returns where the file of a page is kept, both relative to the repository."""
    path = PurePosixPath(page)
    if str(path.parent) == _TUTORIALS and path.suffix == ".ipynb":
        return f"{_NOTEBOOKS}/{path.name}"
    return {place: file for file, place in PLACED.items()}.get(page, page)


def site_links(text: str, page: str) -> str:
    """Returns the text of a page with its relative links as they are in the site.

    Args:
      text: markdown, or a notebook.
      page: place of the page, relative to the repository.
    """
    kept, shown = os.path.dirname(_file(page)), os.path.dirname(page)

    def moved(link: re.Match[str]) -> str:
        file = os.path.normpath(os.path.join(kept, link[0]))
        if not (_ROOT / file).exists():
            return link[0]
        return os.path.relpath(_page(file), shown)

    return _TARGET.sub(moved, text)


def place(app: Sphinx) -> None:
    """Copies the files to their pages, and removes copies of notebooks that are gone."""
    files = [*PLACED, *(str(path.relative_to(_ROOT)) for path in (_ROOT / _NOTEBOOKS).glob("*.ipynb"))]
    places = {_ROOT / _page(file): (_ROOT / file).read_bytes() for file in files}
    for old in (_ROOT / _TUTORIALS).glob("*.ipynb"):
        if old not in places:
            old.unlink()
    for new, content in places.items():
        # A page that has not changed is not read again.
        if not new.exists() or new.read_bytes() != content:
            new.write_bytes(content)


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    source[0] = site_links(source[0], path.relative_to(_ROOT).as_posix())


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    app.connect("builder-inited", place)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
