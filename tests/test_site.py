"""The site that Sphinx builds: its links lead somewhere, it documents every public name, and its pictures have text.

The tests that need the site build it, or read the one in ``LSAR_JAX_SITE``, as ``.ci/docs`` lets them. Links to other
sites are not followed.
"""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.optional import need

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


@pytest.fixture
def extensions(monkeypatch):
    need("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")


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


@pytest.mark.slow
def test_links_and_pictures_of_the_site(site):
    assert not list(broken(site))
    assert sum(len(page.links) for page in pages(site).values()) > 1000
    assert not {path.name: page.silent for path, page in pages(site).items() if page.silent}
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.stem for path in (site / "tutorials").glob("*.html")} == notebooks | {"index"}


@pytest.mark.slow
def test_every_public_name_is_documented(site, extensions):
    from public_names import public_names
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    documented = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert {"lsar_jax.load_encoder", "lsar_jax.transforms.fit_lsar", "lsar_jax.corpora.UDHR_PARTS"} <= public_names()
    assert not public_names() - documented


@pytest.mark.slow
def test_signatures_have_public_names(site):
    # Without tags, as a reader sees it.
    words = HTMLParser()
    shown = []
    words.handle_data = shown.append
    words.feed((site / "reference" / "api" / "transforms.html").read_text(encoding="utf-8"))
    text = " ".join("".join(shown).split())
    assert "fit_lsar( x: Mapping[str, Embeddings | Moments], rank: int | None = None, *," in text
    assert "jaxlib" not in text
    # A constant is shown by its value.
    assert "COUNT" not in (site / "reference" / "api" / "corpora.html").read_text(encoding="utf-8")


def test_broken_links_of_a_site_are_found(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.html").write_text('<p id="here"><a href="../a.html?q=1#">up</a><img src="x.png">')
    (tmp_path / "a.html").write_text(
        '<a href="in/b.html#here">1</a><a href="in/b.html#there">2</a><a href="c.html">3</a><a href="#x%20y">4</a>'
        '<a id="x y" href="https://localhost/d.html">5</a><a href="mailto:a@b">6</a><link href="site.css?v=1">'
    )
    assert sorted(broken(tmp_path)) == [
        ("a.html", "c.html"),
        ("a.html", "in/b.html#there"),
        ("a.html", "site.css?v=1"),
        ("b.html", "x.png"),
    ]
    assert pages(tmp_path)[(tmp_path / "in" / "b.html").resolve()].silent == ["x.png"]


@pytest.mark.parametrize(
    ("page", "link", "in_site"),
    [
        ("docs/index.md", "../CONTRIBUTING.md", "contributing.md"),
        ("docs/how-to/a.md", "../../CONTRIBUTING.md#add-a-task", "../contributing.md#add-a-task"),
        ("docs/how-to/a.md", "../../README.md", "../index.md"),
        ("docs/how-to/a.md", "../explanation/measurements.md#geometry", "../explanation/measurements.md#geometry"),
        ("docs/how-to/a.md", "../../lsar_jax/mining.py", "../../lsar_jax/mining.py"),
        ("docs/how-to/a.md", "../../CONTRIBUTING.txt", "../../CONTRIBUTING.txt"),
        ("docs/how-to/a.md", "https://localhost/README.md", "https://localhost/README.md"),
        ("docs/contributing.md", "docs/explanation/transforms.md", "explanation/transforms.md"),
        ("docs/changelog.md", "README.md", "index.md"),
        (
            "docs/tutorials/1_language_subspace.ipynb",
            "../docs/explanation/transforms.md",
            "../explanation/transforms.md",
        ),
        ("docs/tutorials/1_language_subspace.ipynb", "../docs/images/curve.png", "../images/curve.png"),
    ],
)
def test_links_between_pages_that_are_kept_apart(extensions, page, link, in_site):
    from placed_pages import site_links

    assert site_links(f"See [this]({link}), ![that]({link})\n[name]: {link}", page) == (
        f"See [this]({in_site}), ![that]({in_site})\n[name]: {in_site}"
    )


def test_help_of_commands(extensions):
    from command_help import help_of
    from sphinx.errors import ExtensionError

    text = help_of("lsar-jax fit lsar")
    assert "--rank" in text
    assert max(map(len, text.splitlines())) <= 88
    assert "tatoeba" in help_of("python -m eval")
    with pytest.raises(ExtensionError, match="ended with 2"):
        help_of("lsar-jax no-command")
