"""Pages are written as Markdown; as HTML, a page needs no other file than the pictures that it names."""

import html
from collections.abc import Iterable, Sequence
from string import Template

from markdown_it import MarkdownIt

__all__ = ["as_html", "plain", "table"]


def as_html(title: str, text: str) -> str:
    """Markdown, with HTML in it and pictures as data, as an HTML page."""
    body = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table").render(text)
    return _PAGE.substitute(title=plain(title), body=body)


def plain(text: str) -> str:
    """Text as it stands in a line or a cell of Markdown."""
    return html.escape(text, quote=False).replace("|", "&#124;")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown; all columns but the first are aligned to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
body { color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; }
sub, small { color: #555; font-size: .85em; vertical-align: baseline; }
img { max-width: 100%; background: #fff; }
pre { background: #f3f3f3; padding: 1em; overflow-x: auto; }
</style></head><body>
<main>
$body
</main></body></html>
""")
