"""A page shows what the transforms do to whole vectors; hostile text; bad input."""

import re

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.report import explorer, explorer_page, sliders
from lsar_jax.report.page_kit import _environment
from tests.optional import need
from tests.report.page_data import cosines, data_of, near, state_of

need("bokeh")

CODES = ("de", "en", "fr", "sw")
LINES = 18
DIM = 24
HOSTILE = "</script><script>alert(1)</script><!-- $title ${x} {{ 7 * 7 }} $$x^2$$ <b>&amp; \u2028 עברית"


def planted(rng, dim=DIM):
    """The same meanings in four languages, each around a mean of its own; some directions vary little."""
    meaning = rng.normal(size=(LINES, dim)) * np.geomspace(2, 0.05, dim)
    noise = rng.normal(size=(len(CODES), LINES, dim)) * np.geomspace(0.5, 0.01, dim)
    means = 2 * rng.normal(size=(len(CODES), dim)) * np.geomspace(1, 0.2, dim) + 3
    return {code: (meaning + noise[i] + means[i]).astype(np.float32) for i, code in enumerate(CODES)}


def texts():
    return {code: [f"{code} {i}: {HOSTILE}" for i in range(LINES)] for code in CODES}


def transforms(x):
    """The methods of the page by name and rank, fitted by the public functions."""
    fits = lj.transforms
    mean = fits.fit_center(x, per_language=False)
    result = {(name, None): fit(x) for name, fit in (("center", fits.fit_center), ("lir", fits.fit_lir))}
    result |= {("leace", None): fits.fit_leace(x), ("lsar", 0): None, ("mean+lsar", 0): mean}
    result |= {("outliers", None): fits.fit_outliers(x), ("whitening", None): fits.fit_whitening(x)}
    result |= {("joint", None): fits.fit_joint(x), ("cbie", None): fits.fit_cbie(x)}
    result["language-whitening", None] = fits.fit_whitening(x, per_language=True)
    for rank in range(1, len(CODES)):
        result["lsar", rank] = fits.fit_lsar(x, rank)
        result["mean+lsar", rank] = mean.then(fits.fit_lsar(x, rank))
    return result


def applied(transform, x):
    """Whole vectors after a transform, in float64."""
    if transform is None:
        return np.concatenate(list(x.values())).astype(np.float64)
    return np.concatenate([np.asarray(transform(rows, code), np.float64) for code, rows in x.items()])


@pytest.fixture(scope="module")
def case():
    x = planted(np.random.default_rng(0))
    page = lj.explore(x, texts(), units=dict.fromkeys(CODES, range(LINES)), title=HOSTILE)
    return x, page, data_of(page.html)


@pytest.fixture(scope="module")
def right(case):
    """Whole vectors after each method and rank."""
    return {key: applied(transform, case[0]) for key, transform in transforms(case[0]).items()}


def apart(centred):
    """The scatter of the means of the languages, and a tenth of that of the sentences."""
    means = centred.reshape(len(CODES), LINES, -1).mean(axis=1)
    return LINES * means.T @ means + centred.T @ centred / 10


def test_the_page_has_every_method_and_rank(case, right):
    [layer] = case[2]["layers"]
    found = {(method["name"], rank) for method in layer["methods"] for rank in method["ranks"] or [None]}
    assert found == set(right)
    assert layer["methods"][0]["name"] == "lsar"


def test_neighbours_and_cosines_are_those_of_whole_vectors(case, right):
    [layer] = case[2]["layers"]
    for (name, rank), y in right.items():
        number, similar = state_of(layer, name, rank), cosines(y)
        lists = layer["near"][:, number]
        # Transforms are applied in float32; what is as near as the last may be another sentence.
        shown = np.take_along_axis(similar, lists.astype(int), 1)
        best = np.take_along_axis(similar, near(similar, 10), 1)
        assert np.allclose(shown, best, atol=1e-5), (name, rank)
        assert np.allclose(layer["cosines"][:, number] / 100, shown, atol=5.1e-3)
        # The test sees a page that removes a direction too few.
        if rank:
            wrong = np.take_along_axis(cosines(right[name, rank - 1]), lists.astype(int), 1)
            assert np.abs(wrong - best).max() > 0.02


def test_shares_are_those_of_whole_vectors(case, right):
    data = case[2]
    [layer] = data["layers"]
    language, line = np.repeat(np.arange(4), LINES), np.tile(np.arange(LINES), 4)
    assert data["fair"] == pytest.approx((LINES - 1) / (4 * LINES - 1))
    shares = []
    for (name, rank), y in right.items():
        state, nearest = layer["states"][state_of(layer, name, rank)], near(cosines(y), 10)
        own, found = language[nearest] == language[:, None], (line[nearest] == line[:, None]).sum(axis=1) / 3
        assert state["own"] == pytest.approx(own.mean(), abs=2e-3)
        assert state["found"] == pytest.approx(found.mean(), abs=2e-3)
        for values, key in ((own.mean(axis=1), "own_of"), (found, "found_of")):
            assert state[key] == pytest.approx(values.reshape(4, LINES).mean(axis=1), abs=8e-3)
        shares.append(state["own"])
    assert max(shares) > 0.5 > 0.3 > min(shares)


def test_the_shares_at_strengths_are_those_of_the_highest_rank_in_part(case, right):
    [layer] = case[2]["layers"]
    language, original = np.repeat(np.arange(4), LINES), applied(None, case[0])
    for method in layer["methods"]:
        whole = right[method["name"], method["ranks"][-1] if method["ranks"] else None]
        for strength, state in zip((0, 0.25, 0.5, 0.75, 1), method["strengths"], strict=True):
            nearest = near(cosines(original + strength * (whole - original)), 10)
            assert state["own"] == pytest.approx((language[nearest] == language[:, None]).mean(), abs=2e-3)


def test_of_many_sentences_lists_are_short_and_few_queries_measure_strengths(case, right, monkeypatch):
    monkeypatch.setattr(explorer, "_MANY", LINES)
    data = data_of(lj.explore(case[0], texts(), units=dict.fromkeys(CODES, range(LINES))).html)
    [layer], language, original = data["layers"], np.repeat(np.arange(4), LINES), applied(None, case[0])
    assert data["k"] == 5
    assert [len(method["ranks"]) for method in layer["methods"] if method["ranks"]] == [2, 2]
    for method in layer["methods"]:
        between = (original + right[method["name"], method["ranks"] and method["ranks"][-1]]) / 2
        own = language[near(cosines(between), 5)] == language[:, None]
        assert method["strengths"][2]["own"] == pytest.approx(own[::4].mean(), abs=2e-3)


def test_the_map_shows_languages_apart_and_turns_no_more_than_it_must(case, right):
    [layer] = case[2]["layers"]
    last = None
    for (name, rank), y in right.items():
        number = state_of(layer, name, rank)
        centred, plane = y - y.mean(axis=0), layer["planes"][number].astype(float)
        scale = layer["states"][number]["variance"] * (centred**2).sum() / (plane**2).sum()
        best = np.linalg.eigvalsh(apart(centred))[-2:].sum()
        assert scale * np.trace(apart(plane)) == pytest.approx(best, rel=2e-3), name
        if name == "lsar":  # of all turns and mirror images, the one that is nearest to the last rank's
            if last is not None:
                values = np.linalg.svd(plane.T @ last, compute_uv=False)
                assert np.trace(plane.T @ last) == pytest.approx(values.sum(), rel=1e-3)
            last = plane


def test_of_many_ranks_evenly_spaced_ones_are_shown(case, monkeypatch):
    monkeypatch.setattr(explorer, "_STATES", 8)
    x = {code: np.stack([rows, rows]) for code, rows in case[0].items()}
    page = lj.explore(x, texts(), layers=(8, 12), methods=("lsar", "center"))
    data = data_of(page.html)
    assert (data["unit"], [layer["name"] for layer in data["layers"]]) == (None, ["8", "12"])
    for layer in data["layers"]:
        assert [method["ranks"] for method in layer["methods"]] == [[0, 3], None]
        assert [state["found"] for state in layer["states"]] == 4 * [None]
    # It says which of several layers is fitted.
    assert "x = {code: rows[{number}] for code, rows in x.items()}" in data["code"]["lsar"]["fitting"]


def test_text_cannot_end_a_script(case):
    _, page, data = case
    assert page.html.count("</script>") == page.html.count("<script") == 4
    assert "<!-- $" not in page.html
    assert data["texts"][0] == " ".join(f"de 0: {HOSTILE}".split())
    assert "<title>&lt;/script&gt;" in page.html
    assert not re.findall(r"""(?:src|href)=["']?(?!data:)\w""", page.html.split("<script>")[0])


def test_a_page_is_saved_and_shown(case, tmp_path):
    assert "srcdoc=" in case[1]._repr_html_()
    assert re.fullmatch(r"Explorer\(72 sentences in 4 languages, 1 layer, 1\.\d MB\)", repr(case[1]))
    # With a path that is not text in its title.
    page = lj.explore(case[0], texts(), methods=("center",), title="Language in \udc80")
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert page.size == (tmp_path / "page.html").stat().st_size


def test_sentences_are_drawn_together_with_their_translations(case):
    given = {"units": dict.fromkeys(CODES, range(LINES)), "methods": ("center",)}
    data = data_of(lj.explore(case[0], texts(), count=20, **given).html)
    assert data["language"] == sorted(5 * [0, 1, 2, 3])
    assert len({*data["unit"]}) == 5
    assert data["unit"] == 4 * data["unit"][:5]
    assert len({text.split(":")[0].split()[1] for text in data["texts"]}) == 5
    long = texts() | {"de": ["x" + "क्षि" * 200] * LINES}
    assert data_of(lj.explore(case[0], long, count=20, **given).html)["texts"][0] == "x" + "क्षि" * 74 + "…"


def test_methods_that_cannot_be_fitted_at_every_layer_are_left_out(case, monkeypatch, caplog):
    monkeypatch.setattr(sliders, "DEFAULT_METHODS", ("lsar", "language-whitening", "cbie"))
    x = {code: np.stack([rows[:4], rows[:4]]) for code, rows in case[0].items()}
    x["de"][1] = x["de"][1].mean(axis=0)
    page = lj.explore(x, {code: lines[:4] for code, lines in texts().items()}, layers=(1, 2))
    names = [[method["name"] for method in layer["methods"]] for layer in data_of(page.html)["layers"]]
    assert names == [["lsar"], ["lsar"]]
    assert "without language-whitening, which cannot be fitted at layer 2" in caplog.text
    assert "without cbie, which cannot be fitted at layer 1: components is 12" in caplog.text


@pytest.mark.slow
def test_two_thousand_sentences_at_two_layers_have_five_megabytes(rng):
    codes = [*CODES, "zh", "ar", "fi", "th"]
    x = {code: (rng.normal(size=(2, 250, 64)) + rng.normal(size=64)).astype(np.float32) for code in codes}
    text = {code: [f"{line} " + 20 * "текст " for line in range(250)] for code in x}
    page = lj.explore(x, text, layers=range(2))
    # Vectors of noise: their neighbours are never alike, and take the most space.
    assert 4_000_000 < page.size <= 6_000_000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"texts": texts() | {"th": ["a"]}}, "texts has 1 sentences in th, and x 0 vectors"),
        ({"texts": texts() | {"de": ["a"]}}, "texts has 1 sentences in de, and x 18 vectors"),
        ({"texts": texts() | {"de": LINES * [None]}}, "de: sentence 0 is of type NoneType"),
        ({"texts": texts() | {"de": LINES * ["a\ud800"]}}, r"de: sentence 0 has the lone surrogate U\+D800"),
        ({"layers": (8, 12)}, r"layers is \(8, 12\); give a different name for each of the 1 layers"),
        ({"units": {"de": range(LINES)}}, "units of en has shape .* expected 18 whole numbers"),
        ({"methods": ("pca",)}, "methods is .'pca',.; give a list of some of center, mean, lir"),
        ({"methods": ()}, "give a list of some of"),
        ({"count": 7}, "count is 7; it must be a whole number from 8"),
        (
            {"x": {c: np.eye(LINES, 8) * n for n, c in enumerate(CODES, 1)}, "methods": ("lsar", "cbie")},
            "cbie cannot be fitted: .* 1 to 8 .* leave it",
        ),
        ({"x": {"de": np.ones((3, 2))}}, "at least two languages"),
        ({"x": dict.fromkeys(CODES, np.ones((LINES, DIM)))}, "the means of de, en, fr, sw do not differ"),
        ({"x": dict.fromkeys(CODES, np.ones((LINES, DIM), int))}, "de must be a numpy or jax array of floats"),
    ],
)
def test_bad_input(case, unchecked, changed, message):
    with pytest.raises(ValueError, match=message):
        lj.explore(**({"x": case[0], "texts": texts()} | changed))


def luminance(colour):
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_marks_stand_out_and_differ():
    style = _environment().get_template("style.css").render()
    for ground in re.findall(r"--(?:paper|box): (#\w+)", style):
        ground = luminance(ground if len(ground) == 7 else "#" + "".join(2 * digit for digit in ground[1:]))
        for colour in explorer_page._COLOURS:
            dark, light = sorted((ground, luminance(colour)))
            assert (light + 0.05) / (dark + 0.05) >= 3, colour
    colours, markers = len(explorer_page._COLOURS), len(explorer_page._MARKERS)
    assert len({(number % colours, number % markers) for number in range(84)}) == 84
