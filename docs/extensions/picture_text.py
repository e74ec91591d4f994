"""Text for the pictures that cells of notebooks draw: the title of their section, unless the cell gives a text.

A cell gives it in its metadata: ``{"mystnb": {"image": {"alt": "mAP by rank"}}}``. Pictures in markdown have their own.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

__all__ = ["setup"]


def _describe(app: Sphinx, doctree: nodes.document, page: str) -> None:
    for image in doctree.findall(nodes.image):
        section = image
        while section.parent is not None and not isinstance(section, nodes.section):
            section = section.parent
        title = section.next_node(nodes.title)
        if not image.get("alt") and title is not None:
            image["alt"] = f"Output of the cell before, in the section: {title.astext()}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    app.connect("doctree-resolved", _describe)
    return {"parallel_read_safe": True}
