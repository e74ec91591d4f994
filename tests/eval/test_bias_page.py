"""The bias report's page: queries and languages by hand, hostile text, and the page in a browser."""

import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from eval.bias import figures, layout
from eval.bias.choice import choose
from eval.bias.figures import draw_layers, draw_space
from eval.bias.measures import Candidate, Neutrality, held_out_rows, joined, measure_search
from eval.bias.page import Page, Parts, _of_moments
from eval.bias.queries import (
    Change,
    Example,
    Hit,
    examples,
    find,
    first_results,
    own_by_language,
    search_by_language,
)
from lsar_jax import EncoderSpec
from lsar_jax.measures.methods import fit_methods
from lsar_jax.measures.resampling import Interval, QueryScores
from lsar_jax.options.user_text import UserText
from tests.optional import missing, need

CODES = ("ar", "de", "en")
FOLDS = 3
SPEC = EncoderSpec("bundled", "r", 2, "mean", "float32")
HOSTILE = "<script>window.broken=1</script><img src='http://example.org/x.png'> & \" | *x* [y](http://example.org)"


@pytest.fixture(autouse=True)
def first_two_axes(monkeypatch):
    """In place of t-SNE, which is slow."""
    monkeypatch.setattr(figures, "flat", lambda panels: {name: rows[:, :2] for name, rows in panels.items()})


def planted(rng, lines=60, dim=24):
    """Embeddings of the same meanings in three languages, each around a mean of its own."""
    meaning = rng.normal(size=(lines, dim))
    return {
        code: (meaning + 0.6 * rng.normal(size=meaning.shape) + 2.0 * rng.normal(size=dim)).astype(np.float32)
        for code in CODES
    }


def case(x, form):
    lines = len(x["de"])
    sentences = {code: [f"{code} {line} {HOSTILE}" for line in range(lines)] for code in x}
    every = np.arange(lines)
    text = UserText(sentences, dict.fromkeys(x, every), {}, True)
    if form == "pairs":
        return UserText(sentences, text.units, {code: (every, every) for code in ("ar", "de")}, True)
    return text if form == "aligned" else text.not_aligned()


def candidates(text, x):
    """Without a transform and centred, with the scores of the held-out sentences."""
    found = []
    for method in fit_methods(x, ("original", "center"), source=SPEC):
        parts = []
        for of_fold, few in held_out_rows(text, FOLDS, 0):
            held_out = of_fold if text.pairs else few
            rest = {code: rows[~of_fold[code]] for code, rows in x.items()}
            [fitted] = fit_methods(rest, (method.name,), source=SPEC)
            part = fitted.transform_languages({code: rows[held_out[code]] for code, rows in x.items()})
            if text.aligned:
                parts.append(measure_search(part, text, held_out))
        found.append(
            Candidate(
                SPEC, method, Neutrality(40.0 - 20 * len(found), 30.0, 90.0, 5.0, 1.0), joined(parts) if parts else None
            )
        )
    return found


@pytest.mark.parametrize("form", ["aligned", "pairs", "loose"])
def test_queries_and_languages_by_hand(rng, form):
    x = planted(rng)
    text = case(x, form)
    before, after = candidates(text, x)
    found = find(text, x, after.method, SPEC, FOLDS, 0)
    # What the first fold's first sentence finds before and after, among the sentences of its fold.
    of_fold, few = next(iter(held_out_rows(text, FOLDS, 0)))
    pool = np.flatnonzero(np.concatenate([few[code] for code in CODES]))
    center = lj.transforms.fit_center({code: rows[~of_fold[code]] for code, rows in x.items()})
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
    search = search_by_language(text, before, after, (), FOLDS, 0)
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
        paired = np.isin(
            units[found.asked], [unit for unit in units[found.asked] if (units[found.asked] == unit).sum() > 1]
        )
        nearest, asked = found.hits[1][paired, 0], found.asked[paired]
        assert first["right"].after.value == pytest.approx(100 * np.mean(units[nearest] == units[asked]))
        irrelevant_same = (units[nearest] != units[asked]) & (language[nearest] == language[asked])
        assert first["own"].after.value == pytest.approx(100 * np.mean(irrelevant_same))
        assert first["own"].gain.high < 0 < first["right"].gain.low
    counts, drawn = examples(text, found, 0)
    assert sum(counts.values()) == len(found.asked) == 180
    assert len(drawn) == 5
    if form == "loose":
        assert {example.outcome for example in drawn} == {"differ"}
        # In another order, they are the same sentences.
        turned = found._replace(hits=np.stack([found.hits[0], found.hits[0][:, ::-1]]))
        assert examples(text, turned, 0)[0] == {"more": 0, "differ": 0, "fewer": 0, "same": 180}
        return
    assert [example.outcome for example in drawn] == sorted((e.outcome for e in drawn), reverse=True)  # more, fewer
    for example in drawn:
        right = [sum(hit.right for hit in hits) for hits in (example.before, example.after)]
        assert (right[1] > right[0]) == (example.outcome == "more")
        assert all(hit.right == (hit.text.split()[1] == example.text.split()[1]) for hit in example.after)


def made(rng, form):
    """The page of a text of strangers, which is in a folder of theirs."""
    x = planted(rng, lines=30)
    text, metric = case(x, form), {"aligned": "mAP", "pairs": "accuracy of pairs", "loose": ""}[form]
    both = candidates(text, x)
    choice = choose([one.search for one in both]) if metric else None
    page = Page(Path(f"corpora/{HOSTILE.replace('/', '')}"), text, metric, both, choice, FOLDS, (), "'bundled'", 128)
    shown = page.shown
    found = find(text, x, shown.method, SPEC, FOLDS, 0)
    search = search_by_language(text, page.before, shown, (), FOLDS, 0)
    layers, space = draw_layers(both, metric), draw_space(shown.method, text, x)
    parts = Parts(
        layers, space, search, own_by_language(text, found), *examples(text, found, 0), first_results(text, found)
    )
    return page, page.html(parts, Path("out/transform.safetensors"), [])


@pytest.mark.parametrize("form", ["aligned", "pairs", "loose"])
def test_text_and_names_of_strangers_are_escaped(rng, form):
    page, shown = made(rng, form)
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", shown, flags=re.DOTALL)
    assert body.count("<script>") == 1  # the page's own
    assert not re.search(r'<img|<em>|href="(?!#use")|onerror=', body)
    assert unescape(body).count(HOSTILE) >= 35  # five queries with three hits before and after
    # Sentences say how they are written; headers of tables, what they are headers of.
    assert body.count('dir="ltr"') >= 35
    assert not re.search(r'<th(?! scope="(col|row)")[ >]', body)
    answer = unescape(re.search(r'<div class="answer">(.*?)</div>', body, re.DOTALL)[1])
    assert "Your search prefers the query's language: 40%" in answer
    assert page.answer()[-1] in answer
    # The doubt is in the answer, and the language that is behind.
    if form != "loose":
        assert "It subtracts from each sentence the mean of its language" in answer
        assert f"is chosen in {100 * page.choice.again:.0f}% of resamples" in answer or not page.choice.as_good()
        assert re.search(r"is the lowest after, with \d+\.\d, and ", answer)
        assert "Encode all documents and all queries again: vectors" in body
        assert "by 95% intervals that hold for all of them at once" in answer
        assert "The intervals of gains hold for all languages at once" in body
        assert "lsar-jax fit center NEW.safetensors --moments moments.safetensors</code> fits it again" in body
        # The box of a language in place of a share that says little of text with translations.
        assert re.search(r"Search in the lowest language</b><p class=\"big\">\d", body)
        assert "neighbours in the query's own language</b>" not in unescape(body)
        assert re.search(r"among \d+ others, so expect less in a larger index", body)
    assert ("cannot be said" in answer) == (form == "loose") == ("Use it" not in body)
    assert ("Shown below is center, with which the fewest neighbours at the last layer" in answer) == (form == "loose")
    assert "fitted on these sentences too; the scores are held out." in body


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lsar", "with more languages (<code>--data</code>) or with other <code>--rank</code>; this"),
        ("lir", "or with other <code>--components</code> or with an identifier of the language (<code>--identifier<"),
        ("leace", "with more languages (<code>--data</code>); this"),
        ("cbie", "cbie cannot be fitted again from <code>moments.safetensors</code>: it needs the embeddings"),
    ],
)
def test_what_the_moments_are_good_for(rng, name, said):
    [method] = fit_methods(planted(rng, lines=30), (name,), source=SPEC)
    assert said in _of_moments(Candidate(SPEC, method, Neutrality(1, 1, 1, 1, 1), None))


def test_a_sentence_is_laid_out_in_the_direction_of_most_of_its_letters():
    found = [Hit("CT کی عمومی خصوصیات", "ur", False), Hit("Urdu (اردو) is spoken", "en", False)]
    shown = layout.queries({"differ": 1, "same": 0}, [Example("؟ a", "en", "differ", found, [])], "after", "", False)
    assert re.findall(r'dir="(...)"', shown) == ["ltr", "rtl", "ltr"]


def test_the_answer_without_a_better_map(rng):
    x = planted(rng, lines=30)
    text = case(x, "aligned")
    before, after = candidates(text, x)
    # The same hits for both, and the first of equals is chosen.
    both = [before, Candidate(SPEC, after.method, before.neutrality, QueryScores(before.search.values - 1.0))]
    both[0] = Candidate(SPEC, before.method, before.neutrality, QueryScores(before.search.values))
    page = Page(Path("text"), text, "mAP", both, choose([one.search for one in both]), FOLDS, (), "'bundled'", 128)
    assert page.table()[0] == "Language in text: each method at its best layer, in percent"
    assert replace(page, folder=Path()).table()[0].startswith(f"Language in {Path.cwd().name}: ")
    assert page.answer()[-1].startswith("No map makes search surely better at layer 2: use it as it is")
    found = find(text, x, page.shown.method, SPEC, FOLDS, 0)
    counts, drawn = examples(text, found, 0)
    assert (counts["same"], len(drawn)) == (90, 5)
    assert all(example.before == example.after for example in drawn)
    assert "found as many translations" in layout.queries(counts, drawn, "layer 2, original", "", True)
    # Nor is anything right in text that does not say what means the same.
    assert "translations" not in layout.queries(counts, drawn, "layer 2, original", "", False)


def test_a_map_for_each_language_that_is_hardly_better_is_named(rng):
    x = planted(rng, lines=30)
    text = case(x, "aligned")
    before, after = candidates(text, x)
    noise = rng.normal(0, 5, len(before.search.values))
    both = [before, Candidate(SPEC, after.method, after.neutrality, QueryScores(before.search.values + 0.1 + noise))]
    choice = choose([one.search for one in both], [not one.needs_language for one in both])
    page = Page(Path("text"), text, "mAP", both, choice, FOLDS, (), "'bundled'", 128)
    assert (choice.best, choice.top) == (0, 1)
    assert any(
        line.startswith(f"The highest score is {both[1].score:.1f}, of layer 2, center, ") for line in page.summary()
    )


def test_the_language_that_is_the_farthest_is_named():
    near, far, after = (
        Change(Interval(x, x - 3, x + 3), Interval(y, y, y), Interval(0)) for x, y in ((9, 5), (38, 1), (38, 38))
    )
    [said] = layout.farthest({"de": near, "zh": far}, 7.0)
    assert re.search(r">zh</span> is the farthest .*: 38% of .* are in it before, and 1% after\.$", said)
    assert layout.farthest({"zh": after}, 7.0)[0].endswith("are in it.")
    assert layout.farthest({"de": near}, 7.0) == []


@pytest.mark.slow
def test_the_page_in_a_browser(rng, tmp_path):
    playwright = need("playwright.sync_api")
    if (chromium := shutil.which("chromium")) is None:
        missing("chromium is not installed")
    (tmp_path / "report.html").write_text(made(rng, "aligned")[1])
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
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
            # No word of a table is broken: a cell is as wide as its longest word.
            assert page.evaluate("Math.min(...[...document.querySelectorAll('td')].map(c => c.clientWidth))") > 30
        assert len(colours) == 2
        browser.close()
