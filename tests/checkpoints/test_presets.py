"""Presets: they are on the page, and mteb's registry knows them as the page does."""

import re
from pathlib import Path

import pytest

from lsar_jax.encoders import PRESETS
from lsar_jax.models.architectures import ARCHITECTURES
from tests.optional import need

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "encoders.md"


def rows():
    """The cells of each preset in the page's table, without the marks of what is not confirmed."""
    names = ("name", "id", "architecture", "millions", "licence", "tokens", "pooling", "prompts")
    found = re.findall(r"^\| `([^`]+)` \|(.+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    cells = [[name, *map(str.strip, re.split(r"(?<!\\)\|", text))] for name, text in found]
    return {row[0]: dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)}


def test_the_page_lists_them():
    table = rows()
    assert set(table) == set(PRESETS)
    for name, preset in PRESETS.items():
        row = table[name]
        assert row["id"] == (preset.id or "not on the Hub")
        assert row["architecture"].removesuffix(" (?)") in ARCHITECTURES
        # Where the page is sure of a pooling, other files are refused.
        assert preset.published == ("" if "(?)" in row["pooling"] else row["pooling"])
        assert [other.id for other in PRESETS.values()].count(preset.id) == 1 or not preset.id


@pytest.mark.slow
def test_licences_and_sizes_are_those_of_mteb():
    """But SONAR's, which is another file, and whose licence is wrong there, and LaBSE's length, 256 in its files."""
    need("mteb")
    import mteb

    known, found = {meta.name: meta for meta in mteb.get_model_metas()}, 0
    for name, row in rows().items():
        if meta := known.get(row["id"]):
            found += 1
            assert row["licence"].removesuffix(" (?)") == meta.license, name
            assert row["millions"].removesuffix(" (?)") == str(round(meta.n_parameters / 1e6)), name
            tokens = int(row["tokens"]) if row["tokens"].isdecimal() else None
            lengths = (tokens, tokens + 2) if tokens else (None, float("inf"), 32768)
            assert meta.max_tokens in lengths or name == "labse" or "(?)" in row["tokens"], name
        else:
            # The card of sbert says apache-2.0.
            assert row["licence"][-3:] in ("", "(?)") or "jina" in name or name == "sbert", name
    assert found > len(PRESETS) / 2
