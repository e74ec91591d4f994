"""Relative links of the pages and of the notebooks lead to a file, and to a heading of it, as GitHub resolves them."""

import json
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
# docs/conf.py copies these from where they are kept.
COPIES = {ROOT / "docs" / "contributing.md", ROOT / "docs" / "changelog.md"}
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("docs/**/*.md")} - COPIES)
PARSER = MarkdownIt("commonmark").enable("table")


def markdown(path):
    """The markdown of a page or of the cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join(cell if isinstance(cell, str) else "".join(cell) for cell in cells)


def inline(text):
    """The inline tokens of a text, and whether each is that of a heading."""
    tokens = PARSER.parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "inline":
            yield token, before.type == "heading_open"
        elif token.type == "html_block":
            yield token, False


def links(text):
    """The targets of links and images, in markdown or HTML."""
    for token, _ in inline(text):
        for child in [token, *(token.children or [])]:
            if child.type in ("link_open", "image"):
                yield child.attrGet("href") or child.attrGet("src")
            elif child.type.startswith("html"):
                yield from re.findall(r'(?:href|src)="([^"]+)"', child.content)


def anchors(text):
    """The anchors that GitHub gives to the headings of a text."""
    seen = Counter()
    for token, heading in inline(text):
        if heading:
            words = "".join(child.content for child in token.children if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            yield f"{slug}-{seen[slug]}" if seen[slug] else slug
            seen[slug] += 1


def broken(path):
    """The relative links of a page that lead nowhere, or out of the repository."""
    for link in links(markdown(path)):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (path.parent / place).resolve() if place else path
        outside = target.is_relative_to(ROOT) != path.is_relative_to(ROOT)
        found = not place.startswith("/") and not outside and target.exists()
        if not found or (anchor and anchor not in set(anchors(markdown(target)))):
            yield link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path):
    assert not list(broken(path))
