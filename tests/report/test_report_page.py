"""The report's page: queries and languages by hand, hostile text, and the page in a browser."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import fit_methods
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.options.user_text import UserText
from lsar_jax.report import drawings
from lsar_jax.report.embedded_text import Embedded
from lsar_jax.report.example_queries import (
    draw_examples,
    first_results,
    own_by_language,
    search_by_language,
    search_held_out,
)
from lsar_jax.report.findings import answer, details
from lsar_jax.report.held_out import Folds, measure_layer
from lsar_jax.report.method_comparison import Comparison
from lsar_jax.report.page_kit import Usage, _direction
from lsar_jax.report.report_page import report_html
from lsar_jax.report.sliders import front_of
from tests.made_results import made_result
from tests.report import planted_text

CODES = ("ar", "de", "en")
SPEC = EncoderSpec("bundled", "r", 2, "mean", "float32")
HOSTILE = "<script>window.broken=1</script><img src='http://example.org/x.png'> & \" | *x* [y](http://example.org)"


@pytest.fixture(autouse=True)
def first_two_axes(monkeypatch):
    """In place of t-SNE, which is slow."""
    monkeypatch.setattr(drawings, "flat", lambda panels: {name: rows[:, :2] for name, rows in panels.items()})


def planted(rng, lines=60):
    return planted_text.planted(rng, lines, codes=CODES, noise=0.6, apart=2.0)


def compared(x, form, methods=("original", "center"), worse=None):
    """A comparison without a transform and of others; ``worse`` is what all but the first lose in search."""
    text = planted_text.aligned(x, HOSTILE)
    if form == "pairs":
        rows = np.arange(len(x["de"]))
        text = UserText(text.sentences, text.units, {code: (rows, rows) for code in ("ar", "de")}, True)
    text = text if form != "loose" else text.not_aligned()
    folds = Folds(text, 3, 0)
    measured = measure_layer(folds, SPEC, lambda x, moments: fit_methods(x, methods, source=SPEC), x, None)
    if worse is not None:
        first = measured[0].search
        search = QueryScores(first.values - worse, first.strata, first.clusters)
        measured[1:] = [replace(of, search=search) for of in measured[1:]]
    return Comparison(folds, Embedded(text, [SPEC], {code: rows[None] for code, rows in x.items()}), measured)


def page_of(found):
    """The page of a text of strangers, which is in a folder of theirs."""
    figures = (
        drawings.draw_layers(found.measured, found.metric),
        drawings.draw_space(found.shown.method, found.text, found.embedded.at(2)),
    )
    usage = Usage("lj.load_encoder('bundled', layer={layer})", "max_length=128")
    return report_html(
        found, front_of(found), [], f"Language in {HOSTILE}", usage, "out/transform.safetensors", figures, made_result()
    )


@pytest.mark.parametrize("form", ["aligned", "pairs", "loose"])
def test_queries_and_languages_by_hand(rng, form):
    x = planted(rng)
    comparison = compared(x, form)
    text, folds, [before, after] = comparison.text, comparison.folds, comparison.measured
    found = search_held_out(folds, before, after)
    # What the first fold's first sentence finds before and after, among the sentences of its fold.
    held_out, few, *_ = next(iter(folds))
    pool = np.flatnonzero(np.concatenate([few[code] for code in CODES]))
    center = lj.transforms.fit_center({code: rows[~held_out[code]] for code, rows in x.items()})
    moved = np.concatenate([np.asarray(center(rows, code)) for code, rows in x.items()])
    language = np.repeat(CODES, 60)
    for rows, own, hits in zip((np.concatenate(list(x.values())), moved), found.own, found.hits, strict=True):
        unit = rows[pool] / np.linalg.norm(rows[pool], axis=1, keepdims=True)
        near = pool[np.argsort(-unit[1:] @ unit[0], kind="stable")[:10] + 1]
        assert hits[0].tolist() == near[:3].tolist()
        assert own[0] == pytest.approx(100 * np.mean(language[near] == language[pool[0]]))
    own = own_by_language(text, found)
    assert np.mean([change.before.value for change in own.values()]) == pytest.approx(found.own[0].mean())
    # The languages' scores are parts of the score.
    search = search_by_language(folds, before, after, ())
    assert list(search) == {"aligned": list(CODES), "pairs": ["ar", "de"], "loose": []}[form]
    if search:
        assert np.mean([change.after.value for change in search.values()]) == pytest.approx(after.score)
        change = search["de"]
        assert change.gain.value == pytest.approx(change.after.value - change.before.value)
        assert change.gain.low < change.gain.value < change.gain.high
    # The first results that are translations, or others in the language; in planted text, the rest are few.
    first = first_results(text, found)
    assert set(first) == (set() if form == "loose" else {"right", "own"})
    if first:
        units = np.concatenate([text.units[code] for code in text.codes])
        paired = np.bincount(units[found.asked])[units[found.asked]] > 1
        nearest, asked = found.hits[1][paired, 0], found.asked[paired]
        assert first["right"].after.value == pytest.approx(100 * np.mean(units[nearest] == units[asked]))
        others = (units[nearest] != units[asked]) & (language[nearest] == language[asked])
        assert first["own"].after.value == pytest.approx(100 * np.mean(others))
        assert first["own"].gain.high < 0 < first["right"].gain.low


@pytest.mark.parametrize("form", ["aligned", "loose"])
def test_examples_are_drawn_from_those_that_changed(rng, form):
    x = planted(rng)
    comparison = compared(x, form)
    text = comparison.text
    found = search_held_out(comparison.folds, *comparison.measured)
    counts, drawn = draw_examples(text, found, 0)
    assert sum(counts.values()) == len(found.asked) == 180
    assert len(drawn) == 5
    if form == "loose":
        assert {example.outcome for example in drawn} == {"differ"}
        # In another order, they are the same sentences.
        turned = found._replace(hits=np.stack([found.hits[0], found.hits[0][:, ::-1]]))
        assert draw_examples(text, turned, 0)[0] == {"more": 0, "differ": 0, "fewer": 0, "same": 180}
        return
    assert [example.outcome for example in drawn] == sorted((e.outcome for e in drawn), reverse=True)  # more, fewer
    for example in drawn:
        right = [sum(hit.right for hit in hits) for hits in (example.before, example.after)]
        assert (right[1] > right[0]) == (example.outcome == "more")
        assert all(hit.right == (hit.text.split()[1] == example.text.split()[1]) for hit in example.after)


@pytest.mark.parametrize("form", ["aligned", "pairs", "loose"])
def test_text_and_names_of_strangers_are_escaped(rng, form):
    found = compared(planted(rng, lines=30), form)
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page_of(found), flags=re.DOTALL)
    assert body.count("<script>") == 1  # the page's own
    body = re.sub(r"<script>.*?</script>", "", body, flags=re.DOTALL)
    assert not re.search(r'<img|<em>|href="(?!#use|data:)|onerror=', body)
    assert unescape(body).count(HOSTILE) >= 35  # five queries with three hits before and after
    # Sentences say how they are written; headers of tables, what they are headers of.
    assert body.count('dir="ltr"') >= 35
    assert not re.search(r'<th(?! scope="(col|row)")[ >]', body)
    above = unescape(re.search(r'<div class="answer">(.*?)</div>', body, re.DOTALL)[1])
    assert f"{found.before.own:.1f}% of a sentence's 9 nearest neighbours are in its own language" in above
    assert ("No recommendation:" in above) == (form == "loose") == ("Use it" not in body)
    assert ("Shown is center, with which the fewest neighbours at the last layer" in above) == (form == "loose")
    assert "fitted on these sentences too; the scores are held out." in body
    # Each fact is said once: in the answer, or in the details.
    assert not {*answer(found)} & {*details(found)}
    if form != "loose":
        assert re.search(r"has the lowest score, \d+\.\d, and ", above)
        assert f"is chosen in {100 * found.recommendation.again:.0f}% of 1,000 resamples of the text" in body
        assert "lsar-jax fit center NEW.safetensors --moments moments.safetensors</code> fits it again" in body
        assert re.search(r"among \d+ others, so expect less in a larger index", body)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lir", "(<code>--texts</code>) or with other <code>--components</code> or with an identifier of the language"),
        ("cbie", "cbie cannot be fitted again from <code>moments.safetensors</code>: it needs the embeddings"),
    ],
)
def test_what_the_moments_are_good_for(rng, name, said):
    page = page_of(compared(planted(rng, lines=30), "aligned", ("original", name), worse=-20.0))
    assert said in page


def test_a_sentence_is_laid_out_in_the_direction_of_most_of_its_letters():
    sentences = ("؟ a", "CT کی عمومی خصوصیات", "Urdu (اردو) is spoken")
    assert [*map(_direction, sentences)] == ["ltr", "rtl", "ltr"]


def test_the_answer_without_a_better_map(rng):
    # The first of equals is chosen, and has the same hits before and after.
    found = compared(planted(rng, lines=30), "aligned", worse=1.0)
    assert answer(found)[-1].startswith("Recommended: layer 2, original, as it is: no map makes search surely better.")
    page = page_of(found)
    assert "90 found as many translations" in page
    assert page.count("<h4>") == 5
    # Nor is anything right in text that does not say what means the same.
    loose = compared(planted(rng, lines=30), "loose", ("original",))
    assert "translation" not in page_of(loose).split("<h2>5 queries")[1].split("</article>")[0]


def test_a_map_for_each_language_that_is_hardly_better_is_named(rng):
    noise = rng.normal(0, 5, 90)
    found = compared(planted(rng, lines=30), "aligned", worse=-0.1 - noise)
    assert (found.recommendation.best, found.recommendation.top) == (0, 1)
    start = f"The highest score is {found.measured[1].score:.1f}, of layer 2, center, "
    assert any(line.startswith(start) for line in details(found))


def test_the_language_that_is_the_farthest_is_named(rng):
    x = planted(rng, lines=30)
    for code in CODES:  # two that have the same mean, and one far away
        x[code] += (20.0 if code == "ar" else 0.0) - x[code].mean(axis=0)
    page = re.sub(r"<[^>]*>", "", page_of(compared(x, "aligned")))
    assert re.search(r"ar is the farthest from the others: 100% of the .* are in it before, and \d+% after\.", page)
    assert "is the farthest" not in page_of(compared({**x, "ar": x["ar"] - 20.0}, "aligned"))


@pytest.mark.slow
def test_the_page_in_a_browser(rng, tmp_path, browser):
    (tmp_path / "report.html").write_text(page_of(compared(planted(rng, lines=30), "aligned")), encoding="utf-8")
    colours = set()
    for width, scheme in ((1280, "dark"), (390, "light")):
        page, wrong = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme), []
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.on("request", lambda request, wrong=wrong: wrong.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        assert wrong == [(tmp_path / "report.html").as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("window.broken") is None
        assert "German" in page.locator(".wide").first.inner_text()
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        # The tab of another library, by the keyboard.
        page.locator("#with-faiss").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".copied:visible pre").evaluate_all("all => all.map(of => of.id)") == ["loading-Qdrant"]
        # No word of a table is broken: a cell is as wide as its longest word.
        assert page.evaluate("Math.min(...[...document.querySelectorAll('td')].map(c => c.clientWidth))") > 30
    assert len(colours) == 2
