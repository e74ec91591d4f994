"""HTML pages, light or dark, for wide and narrow screens; no other file is needed but pictures that Markdown names."""

import html
import re
from collections.abc import Iterable, Sequence
from string import Template

from markdown_it import MarkdownIt

__all__ = ["as_html", "document", "html_table"]


def as_html(title: str, text: str) -> str:
    """Markdown, with HTML in it and pictures as data, as an HTML page."""
    body = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table").render(text)
    body = body.replace("<table>", f"{_BOX.format(name='table')}\n<table>").replace("</table>", "</table></div>")
    return document(title, re.sub(r"<th(?=[ >])", '<th scope="col"', body))


def document(title: str, body: str) -> str:
    """An HTML page with this body."""
    return _PAGE.substitute(title=html.escape(title), body=body)


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], marked: str = "") -> str:
    """A table with cells of HTML; the first cell of a row is its header, and that of the marked row is ``marked``."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    lines = []
    for first, *cells in rows:
        opening = '<tr class="marked">' if first == marked else "<tr>"
        lines.append(f'{opening}<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    body, name = "\n".join(lines), html.escape(caption)
    return (
        f"{_BOX.format(name=name)}<table><caption><span>{name}</span></caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


# A wide table scrolls in a box of its own, which the keyboard reaches.
_BOX = '<div class="wide" role="region" aria-label="{name}" tabindex="0">'

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root {
  color-scheme: light dark;
  --ink: #1a1a1a; --paper: #fff; --soft: #555; --line: #d8d8d8; --box: #f4f5f7; --mark: #fff3c4; --good: #0a6b40;
  --bad: #a83200; --faint: #c9c9c9; --link: #0b57d0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e8e8e8; --paper: #15171b; --soft: #b0b5bd; --line: #3b4048; --box: #20242a; --mark: #453b12;
    --good: #6fdda8; --bad: #ff9d73; --faint: #5a5a5a; --link: #8ab4f8;
  }
}
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72em; padding: 1em; }
body { color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
a { color: var(--link); }
h1 { font-size: 1.6em; line-height: 1.25; margin: .3em 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25em; margin: 2em 0 .5em; }
li, p { max-width: 50em; overflow-wrap: anywhere; }
.wide {  /* the shadow at an edge says that there is more beyond it */
  overflow-x: auto; max-width: 100%; position: relative;
  background: linear-gradient(to right, var(--paper) 50%, transparent) 0 0 / 3em 100% no-repeat local,
    linear-gradient(to left, var(--paper) 50%, transparent) 100% 0 / 3em 100% no-repeat local,
    linear-gradient(to right, var(--line), transparent) 0 0 / 1em 100% no-repeat scroll,
    linear-gradient(to left, var(--line), transparent) 100% 0 / 1em 100% no-repeat scroll;
}
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .2em 0; }
caption span { display: block; max-width: calc(100vw - 2em); }
td, th { padding: .3em .7em; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: normal; }
th { text-align: left; }
thead th { vertical-align: bottom; }
thead th + th, td { text-align: right; }
sub, small { color: var(--soft); font-size: .85em; vertical-align: baseline; }
img { max-width: 100%; background: #fff; }
pre { background: var(--box); padding: 1em; overflow-x: auto; }
@media (max-width: 40em) { td, th { padding: .3em .35em; font-size: .88em; } caption { font-size: .88em; } }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
</style></head><body>
<main>
$body
</main></body></html>
""")
