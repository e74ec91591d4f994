"""The rows of evaluations that are not transforms of the library by themselves: zeroed dimensions and pairs."""

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.data.tatoeba import read_pairs
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import check_methods, fit_methods
from lsar_jax.retrieval import nearest
from tests.dataset_hub import write_rows
from tests.eval.test_tasks import ENCODER, by_metric, is_png, read, write_pairs
from tests.fake_encoder import FakeEncoder

pytestmark = pytest.mark.usefixtures("fake")
SPEC = EncoderSpec("x", "sha256:0", 1, "mean", "float32")


def test_the_largest_dimensions_of_every_language_but_english(rng):
    x = {code: 0.01 * rng.standard_normal((20, 24)).astype(np.float32) for code in ("en", "de", "fr")}
    for code, first in (("en", 0), ("de", 10), ("fr", 12)):
        x[code][:, first : first + 10] += 5
    [method] = fit_methods(x, ("largest",), source=SPEC)
    assert method.label == "largest=10"
    assert np.flatnonzero((method(x["en"], "en") == 0).all(axis=0)).tolist() == list(range(10, 22))
    np.testing.assert_array_equal(method(x["en"], "en")[:, :10], x["en"][:, :10])


def test_dimensions_to_zero(rng):
    x = {code: rng.standard_normal((5, 8)).astype(np.float32) for code in ("en", "de")}
    first, second = fit_methods(x, ("zero",), {"zero": ("3", "1,6")}, source=SPEC)
    assert [first.label, second.label] == ["zero=3", "zero=1,6"]
    assert np.flatnonzero((second(x["de"], "de") == 0).all(axis=0)).tolist() == [1, 6]
    for zero, message in (
        ((), "--transforms has zero: zero has no value; give one"),
        (("8",), "zero has 8, but the embeddings have 8 dimensions, from 0"),
        (("1,x",), "zero has '1,x'; give different dimensions, such as 588 or 588,306"),
        (("1,1",), "zero has '1,1'; give different dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            check_methods(("zero",), {"zero": zero}, ("de", "en"), 8)


def test_methods_fitted_on_pairs(tmp_path, printed, refused):
    data, no = tmp_path / "data", tmp_path / "no"
    texts = [f"{a} {b} c{a}" for a in "abcd" for b in "efgh"]
    for code in ("deu", "fra"):
        write_pairs(data, code, "\n".join(texts), "\n".join(f"{code} {text}" for text in texts))
    pairs = write_rows(tmp_path, "pairs/en-de.tsv", [(f"{a} c", f"deu {a} c") for a in "abcdefgh"]).parent
    command = ["tatoeba", *ENCODER, "--data", str(data), "--layers", "2"]
    names = ["--transforms", "original", "linear", "shift", "lsar", "--ranks", "1", "2"]
    out = tmp_path / "out"
    languages = ["--languages", "de", "fr"]
    shown = printed(main, [*command, *languages, *names, "--parallel", pairs, "--out", out])
    assert "has no pairs of fr: no map is tested on these" in shown.replace("\n", " ")
    # The table has a column of the languages that have pairs, with the original beside the maps.
    [row] = [line for line in shown.splitlines() if line.startswith("│ linear")]
    assert row.count(".") == 2
    assert is_png(out / "ranks.png")
    results = by_metric(read(out))
    encoder = FakeEncoder(2)
    sides = [[line.split("\t")[n] for line in (pairs / "en-de.tsv").read_text().splitlines()] for n in (0, 1)]
    english, german = (encoder.encode(side) for side in sides)
    queries, candidates = (encoder.encode(side) for side in read_pairs(data, ("de",))["de"])
    for name, fit in (("linear", lj.transforms.fit_linear_map), ("shift", lj.transforms.fit_shift)):
        transform = fit({"de": (german, english)})
        found = np.asarray(nearest(queries, np.asarray(transform(candidates, "de")))[1])[:, 0]
        expected = 100 * (found == np.arange(len(found))).mean()
        assert results[name, "en-de accuracy"]["value"] == pytest.approx(expected)
        # It knows no French.
        assert (name, "en-fr accuracy") not in results
        assert results[name, "en-de accuracy"]["fitted_on"] == f"{pairs}, up to 10000 a language"
    # A task that tests every method on every language needs pairs of all of them.
    lines = ["--transforms", "linear", "--parallel", str(pairs), "--layers", "2"]
    error = refused(main, ["geometry", *ENCODER, *lines, "--languages", "en", "de", "fr", "--out", no])
    assert "no pairs of fr; it has de; test these, or omit the methods" in error
    for arguments, message in (
        ([*names, "--parallel", str(pairs), "--fit-on", "evaluated"], "it cannot be combined with --fit-on evaluated"),
        ([*names, "--parallel", str(pairs), "--languages", "fr"], "has no pairs of fr; it has de; test these"),
    ):
        chosen = [] if "--languages" in arguments else languages
        assert message in refused(main, [*command, *chosen, *arguments, "--out", no])
