"""The site that Sphinx builds: its links lead somewhere, it documents every public name, and its pictures have text.

The tests build it, or read the one in ``LSAR_JAX_SITE``, as ``.ci/docs`` lets them.
"""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.optional import need

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """The links of a page, its anchors, and its pictures without text."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.silent = [], {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        # Sphinx gives a picture without text the name of its file.
        if tag == "img" and attributes.get("alt", "").strip() in ("", attributes["src"]):
            self.silent.append(attributes["src"])


def pages(site):
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


def broken(site):
    """The internal links of a site that lead nowhere, with the page that has them."""
    every = pages(site)
    for path, page in every.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = target in every and unquote(parts.fragment) not in every[target].anchors
            if lost or not target.is_file():
                yield path.name, link


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if "LSAR_JAX_SITE" in os.environ:
        return Path(os.environ["LSAR_JAX_SITE"])
    need("furo")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", folder / "trees"]
    run = subprocess.run([*command, ROOT / "docs", folder / "site"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder / "site"


def test_links_and_pictures_of_the_site(site):
    assert not list(broken(site))
    assert sum(len(page.links) for page in pages(site).values()) > 1000
    assert not {path.name: page.silent for path, page in pages(site).items() if page.silent}
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.stem for path in (site / "tutorials").glob("*.html")} == notebooks | {"index"}


def test_every_public_name_is_documented(site, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    from public_names import public_names
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    documented = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert {"lsar_jax.load_encoder", "lsar_jax.transforms.fit_lsar", "lsar_jax.corpora.UDHR_PARTS"} <= public_names()
    assert not public_names() - documented
