"""What a page computes with equals the transforms on whole vectors; hostile text; bad input."""

import json
import re

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.explorer import contents
from lsar_jax.explorer import page as page_module
from lsar_jax.transforms.methods import METHODS
from tests.explorer.reading import cosines, data_of, moved, near, numbers
from tests.optional import need

need("bokeh")

CODES = ("de", "en", "fr", "sw")
LINES = 18
DIM = 24
HOSTILE = "</script><script>alert(1)</script><!-- $title ${x} $$x^2$$ <b>&amp; \u2028 עברית"


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
    result = {(name, 0): fit(x) for name, fit in (("center", fits.fit_center), ("lir", fits.fit_lir))}
    result |= {("leace", 0): fits.fit_leace(x), ("lsar", 0): None, ("mean+lsar", 0): mean}
    result |= {("outliers", 0): fits.fit_outliers(x), ("whitening", 0): fits.fit_whitening(x)}
    result["joint", 0] = fits.fit_joint(x)
    result |= {("language-whitening", 0): fits.fit_whitening(x, per_language=True), ("cbie", 0): fits.fit_cbie(x)}
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
    return x, page, data_of(page)


@pytest.fixture(scope="module")
def right(case):
    """Whole vectors after each method and rank."""
    return {key: applied(transform, case[0]) for key, transform in transforms(case[0]).items()}


def apart(centred):
    """The scatter of the means of the languages, and a tenth of that of the sentences."""
    means = centred.reshape(len(CODES), LINES, -1).mean(axis=1)
    return LINES * means.T @ means + centred.T @ centred / 10


def states(data):
    [layer] = data["layers"]
    for method in layer["methods"]:
        for rank, state in enumerate(method["states"]):
            yield layer, method, rank, state


def test_the_page_computes_what_the_transforms_do(case, right):
    _, _, data = case
    assert {(method["name"], rank) for _, method, rank, _ in states(data)} == set(right)
    for layer, method, rank, state in states(data):
        assert (layer["width"], layer["values"]["kind"]) == (DIM, "Int16")  # room for all
        if "near" in state:
            continue
        ours = cosines(moved(data, layer, method, rank), numbers(layer["residual"]))
        whole = cosines(right[method["name"], rank])
        # Transforms are applied in float32.
        assert np.abs(ours - whole).max() <= layer["difference"] + 1e-6 < 1e-3, (method["name"], rank)
        # The test sees the error of a page that removes a direction too few.
        if rank:
            wrong = cosines(moved(data, layer, method, rank - 1), numbers(layer["residual"]))
            assert np.abs(wrong - whole).max() > 0.02


def test_neighbours_and_maps_of_other_methods_are_those_of_whole_vectors(case, right):
    _, _, data = case
    found = {method["name"]: state for _, method, _, state in states(data) if "near" in state}
    assert [*found] == ["outliers", "whitening", "language-whitening", "cbie"]
    for name, state in found.items():
        y = right[name, 0]
        similar = cosines(y)
        lists = numbers(state["near"]).astype(int)
        assert all({*rows.tolist()} == {*near(similar, row)} for row, rows in enumerate(lists)), name
        assert np.allclose(numbers(state["cosines"]), np.take_along_axis(similar, lists, 1), atol=1e-4)
        centred, plane = y - y.mean(axis=0), numbers(state["plane"])
        best = np.linalg.eigvalsh(apart(centred))[-2:].sum()
        assert np.trace(apart(plane)) == pytest.approx(best, rel=1e-3)
        assert state["variance"] == pytest.approx((plane**2).sum() / (centred**2).sum(), rel=1e-3)


def test_shares_are_those_of_whole_vectors(case, right):
    _, _, data = case
    language, line = np.repeat(np.arange(4), LINES), np.tile(np.arange(LINES), 4)
    assert data["expected"] == pytest.approx((LINES - 1) / (4 * LINES - 1))
    shares = []
    for _, method, rank, state in states(data):
        similar = cosines(right[method["name"], rank])
        nearest = np.argsort(-(similar - 9 * np.eye(len(similar))), axis=1)[:, :10]
        same = language[nearest] == language[:, None]
        found = (line[nearest] == line[:, None]).sum(axis=1) / 3
        assert state["same"] == pytest.approx(same.mean(), abs=2e-3)
        assert state["found"] == pytest.approx(found.mean(), abs=2e-3)
        for values, key in ((same.mean(axis=1), "same_of"), (found, "found_of")):
            assert state[key] == pytest.approx(values.reshape(4, LINES).mean(axis=1), abs=8e-3)
        shares.append(state["same"])
    assert max(shares) > 0.5 > 0.3 > min(shares)


def test_fewer_dimensions_keep_the_transforms_and_say_their_error(case, right, monkeypatch):
    x, _, _ = case
    monkeypatch.setattr(
        "lsar_jax.explorer.contents.LIMIT", page_module.bytes_of_page({"title": "", "languages": []}) + 18_000
    )
    data = data_of(lj.explore(x, texts(), methods=("lsar", "leace")))
    assert data["unit"] is None
    [layer] = data["layers"]
    assert layer["values"]["kind"] == "Int8"
    assert layer["width"] < DIM
    differences = []
    for _, method, rank, state in states(data):
        assert state["found"] is None
        if "near" in state:
            continue
        whole = right[method["name"], rank]
        y, residual = moved(data, layer, method, rank), numbers(layer["residual"])
        # What the transform removes is inside the dimensions, so that lengths are right after it too.
        assert np.allclose(np.sqrt((y**2).sum(axis=1) + residual**2), np.linalg.norm(whole, axis=1), rtol=0.01)
        differences.append(np.abs(cosines(y, residual) - cosines(whole))[~np.eye(len(y), dtype=bool)].max())
    assert layer["difference"] == pytest.approx(max(differences), abs=1e-4)
    assert 0.5 < layer["agreement"] <= 1


def test_the_map_turns_no_more_than_it_must(case):
    _, _, data = case
    for layer, method, rank, state in states(data):
        if "near" in state:
            continue
        y, axes = moved(data, layer, method, rank), numbers(state["axes"])
        assert np.allclose(axes.T @ axes, np.eye(2), atol=1e-3)
        centred = y - y.mean(axis=0)
        best = np.linalg.eigvalsh(apart(centred))[-2:].sum()
        assert np.trace(apart(centred @ axes)) == pytest.approx(best, rel=1e-3)
        assert state["variance"] == pytest.approx(((centred @ axes) ** 2).sum() / (centred**2).sum(), rel=1e-3)


def test_text_cannot_end_a_script(case):
    _, page, data = case
    assert page.html.count("</script>") == page.html.count("<script") == 4
    assert "<!-- $" not in page.html
    assert data["texts"][0] == " ".join(f"de 0: {HOSTILE}".split())
    assert "<title>&lt;/script&gt;" in page.html
    assert not re.findall(r"""(?:src|href)=["']?(?!data:)\w""", page.html.split("<script>")[0])


def test_a_page_is_saved_and_shown(case, tmp_path):
    _, page, _ = case
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    assert "srcdoc=" in page._repr_html_()
    assert re.fullmatch(r"Explorer\(72 sentences in 4 languages, 1 layer, 1\.\d MB\)", repr(page))


def test_sentences_are_drawn_together_with_their_translations(case):
    x, _, _ = case
    both = {code: np.stack([rows, rows[::-1]]) for code, rows in x.items()}
    given = {"layers": (8, 12), "units": dict.fromkeys(CODES, range(LINES)), "methods": ("center",)}
    data = data_of(lj.explore(both, texts(), count=20, **given))
    assert [layer["name"] for layer in data["layers"]] == ["8", "12"]
    assert data["language"] == sorted(5 * [0, 1, 2, 3])
    assert data["unit"] == 4 * list(range(5))
    assert len({text.split(":")[0].split()[1] for text in data["texts"]}) == 5


def test_a_path_that_is_not_text_can_be_shown(case, tmp_path):
    page = lj.explore(case[0], texts(), methods=("center",), title="Language in \udc80", fit_options="--data de=\udc80")
    page.save(tmp_path / "page.html")
    assert page.size == (tmp_path / "page.html").stat().st_size
    assert data_of(page)["fit"] == "--data de=\udc80"


def test_what_there_is_no_room_for_is_left_out(case, monkeypatch, caplog):
    x, base = (
        {c: np.stack([rows, rows]) for c, rows in case[0].items()},
        page_module.bytes_of_page(case[2] | {"layers": []}),
    )
    # Methods that are computed here go first, and the last of the others only if few dimensions would not do.
    for room, left in ((54_000, ("cbie", "language-whitening")), (17_000, ("cbie", "leace", "outliers"))):
        monkeypatch.setattr("lsar_jax.explorer.contents.LIMIT", base + room)
        caplog.clear()
        page = lj.explore(x, texts(), layers=(1, 2), units=dict.fromkeys(CODES, range(LINES)), title=HOSTILE)
        assert base + 0.6 * room < page.size <= base + room
        names = [{method["name"] for method in layer["methods"]} for layer in data_of(page)["layers"]]
        assert names[0] == names[1] >= {"lsar", "mean+lsar", "center"}
        lost = {*contents.DEFAULT_METHODS} - names[0]
        assert lost >= {*left}
        assert all(name in caplog.text.split(", with which it would have more than 1 MB")[0] for name in lost)
    monkeypatch.setattr("lsar_jax.explorer.contents.LIMIT", base + 6_000)
    with pytest.raises(
        ValueError, match="72 sentences in 4 languages, at 2 layers, would have .* lsar alone; give fewer"
    ):
        lj.explore(x, texts(), layers=(1, 2), methods=("lsar", "center"))


def test_a_method_that_fails_at_one_layer_is_at_none(case, monkeypatch, caplog):
    monkeypatch.setattr("lsar_jax.explorer.contents.DEFAULT_METHODS", ("lsar", "language-whitening"))
    x = {code: np.stack([rows, rows]) for code, rows in case[0].items()}
    x["de"][1] = x["de"][1].mean(axis=0)
    layers = data_of(lj.explore(x, texts(), layers=(1, 2)))["layers"]
    assert [[method["name"] for method in layer["methods"]] for layer in layers] == [["lsar"], ["lsar"]]
    assert "without language-whitening, which cannot be fitted at layer 2" in caplog.text


@pytest.mark.slow
def test_two_thousand_sentences_have_five_megabytes(rng):
    x = {c: (rng.normal(size=(4, 400, 384)) + rng.normal(size=384)).astype(np.float32) for c in (*CODES, "zh")}
    text = {code: [f"{line} " + 30 * "текст " for line in range(400)] for code in x}
    page = lj.explore(x, text, layers=range(4), methods=("center",))
    assert 4_800_000 < page.size <= 5_000_000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"texts": {"de": []}}, "texts has the languages de, and x de, en, fr, sw"),
        ({"texts": texts() | {"de": ["a"]}}, "texts has 1 sentences in de, and x 18 vectors"),
        ({"texts": texts() | {"de": LINES * [None]}}, "de: sentence 0 is of type NoneType"),
        ({"texts": texts() | {"de": LINES * ["a\ud800"]}}, r"de: sentence 0 has the lone surrogate U\+D800"),
        ({"layers": (8, 12)}, r"layers is \(8, 12\); give a different name for each of the 1 layers"),
        ({"units": {"de": range(LINES)}}, "units of en: expected 18 whole numbers"),
        ({"methods": ("pca",)}, "there is no method 'pca'; choose among center, mean, lir"),
        ({"methods": ()}, "give a list of different names"),
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


def test_a_page_is_without_what_cannot_be_fitted(case, caplog):
    few = {code: rows[:4] for code, rows in case[0].items()}
    page = lj.explore(few, {code: lines[:4] for code, lines in texts().items()})
    assert "the page is without cbie, which cannot be fitted: components is 12" in caplog.text
    methods = [method["name"] for method in data_of(page)["layers"][0]["methods"]]
    assert methods == [name for name in contents.DEFAULT_METHODS if name != "cbie"]


def test_every_method_is_explained():
    assert all(method.summary for method in METHODS.values())


def luminance(colour):
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_marks_stand_out_and_differ():
    style = page_module._text("page.css")
    for ground in re.findall(r"--(?:page|panel): (#\w+)", style):
        ground = luminance(ground if len(ground) == 7 else "#" + "".join(2 * digit for digit in ground[1:]))
        for colour in page_module._COLOURS:
            dark, light = sorted((ground, luminance(colour)))
            assert (light + 0.05) / (dark + 0.05) >= 3, colour
    colours, markers = len(page_module._COLOURS), len(page_module._MARKERS)
    assert len({(number % colours, number % markers) for number in range(84)}) == 84


def test_json_of_the_map_has_no_points():
    assert len(json.dumps(page_module._map())) < 20_000
