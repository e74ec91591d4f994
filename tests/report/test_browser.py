"""An explorer's page in Chromium: menus, slider, map, lists and keyboard show what Python found, and load nothing."""

from dataclasses import replace

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.report import explorer
from lsar_jax.report.page_kit import Usage
from lsar_jax.transforms.methods.lsar import fit_mean_then_lsar
from tests.optional import need
from tests.report import planted_text
from tests.report.page_data import data_of, state_of

need("bokeh")
pytestmark = pytest.mark.slow

CODES = ("ar", "de", "en", "fr", "sw")
LINES = 20
EN = CODES.index("en") * LINES  # the sentence that is chosen at first
METHODS = ("lsar", "mean+lsar", "lir", "leace", "whitening", "outliers")
# The first coordinates on the map.
POINTS = "Array.from(Bokeh.documents[0].get_model_by_name('points').data.x)"
# Text that would run if it were not escaped, or make Bokeh load a library.
HOSTILE = "</script><img src='http://example.org/x.png' onerror='window.broken=1'> $$x^2$$ ${1} @{x}"


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    rng = np.random.default_rng(1)
    x = planted_text.planted(rng, LINES, 48, codes=CODES, noise=0.4, apart=1.2)
    both = {code: np.stack([rows, rows @ rng.normal(size=(48, 48)).astype(np.float32)]) for code, rows in x.items()}
    texts = {code: [f"{code} number {line} {HOSTILE}" for line in range(LINES)] for code in CODES}
    texts["sw"] = [f"sw number {line} {'क्षि' * 60}" for line in range(LINES)]
    with pytest.MonkeyPatch.context() as patch:  # t-SNE takes seconds
        patch.setattr(explorer, "flat", lambda panels, _: {name: rows[:, :2] for name, rows in panels.items()})
        page = lj.explore(
            both, texts, layers=(8, 12), units=dict.fromkeys(CODES, range(LINES)), methods=METHODS, tsne=True,
            title=f"Title {HOSTILE}",
        )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "page.html"
    page.save(path)
    return data_of(page.html), path, page


@pytest.fixture
def open_page(browser, case):
    """A function that opens the page; afterwards, nothing must have been loaded, and no error have been logged."""
    pages, loaded, logged = [], [], []

    def opened(width=1280, **options):
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        pages.append(page)
        page.on("request", lambda request: loaded.append(request.url))
        page.on("console", lambda message: logged.append(message.text) if message.type in ("error", "warning") else 0)
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.goto(case[1].as_uri())
        page.wait_for_selector("body[data-ready]")
        return page

    yield opened
    for page in pages:
        assert page.evaluate("window.broken") is None
        page.close()
    assert [url for url in loaded if not url.startswith("data:")] == len(pages) * [case[1].as_uri()]
    assert logged == []


def shown_rows(page, place):
    return [int(row) for row in page.locator(f"#{place} button").evaluate_all("all => all.map(b => b.dataset.row)")]


def expected(data, layer, method, rank, row):
    """The neighbours of a row before and after, and the line about them."""
    layer, language, unit = data["layers"][layer], np.array(data["language"]), np.array(data["unit"])
    before, after = (layer["near"][row, number] for number in (0, state_of(layer, method, rank)))
    ours = [int((language[rows] == language[row]).sum()) for rows in (before, after)]
    found = [int(((unit[rows] == unit[row]) & (language[rows] != language[row])).sum()) for rows in (before, after)]
    line = f"{ours[0]} of 10 in its own language before, {ours[1]} after."
    return before.tolist(), after.tolist(), f"{line} Translations: {found[0]} of 4 before, {found[1]} after."


def first_rank(data):
    """The rank at which the page opens: the lowest that finds nearly as many translations as the best."""
    layer = data["layers"][0]
    found = np.array([state["found"] for state in layer["states"]])[layer["methods"][0]["first"] + np.arange(5)]
    return int(np.argmax(found >= found.max() - 0.01))


def set_rank(page, rank):
    page.locator("#rank").evaluate("(slider, to) => { slider.value = to; slider.oninput(); }", str(rank))


def test_the_slider_and_the_menus_change_what_is_shown(open_page, case):
    data, lines = case[0], set()
    page, english = open_page(), data["languages"].index("en")
    assert page.inner_text("#rank-value") == f"{first_rank(data)} of 4"
    others = [(1, "mean+lsar", 2), (1, "leace", None), (1, "whitening", None)]
    for at, method, rank in [*((0, "lsar", rank) for rank in range(5)), *others]:
        page.locator("#layer").select_option(label=str((8, 12)[at]))
        page.locator("#method").select_option(label=method)
        if rank is not None:
            set_rank(page, rank)
        assert page.locator("#rank").is_disabled() == (rank is None)
        before, after, line = expected(data, at, method, rank, EN)
        assert page.inner_text("#verdict") == line
        assert shown_rows(page, "before") == before
        assert shown_rows(page, "after") == after
        lines.add(line)
        layer = data["layers"][at]
        number = state_of(layer, method, rank)
        first, state = layer["states"][0], layer["states"][number]
        assert f"{round(100 * state['own'])}% after (fair: 19%)" in page.inner_text("#shares")
        cells = page.locator("#legend tr", has_text="English").locator("td").all_inner_texts()
        shares = [of[key][english] for key in ("own_of", "found_of") for of in (first, state)]
        assert np.allclose([float(text.rstrip("%")) for text in cells], 100 * np.array(shares), atol=0.51)
        missed = [of for of in np.flatnonzero(np.array(data["unit"]) == data["unit"][EN]) if of not in (EN, *after)]
        names = {"ar": "Arabic", "de": "German", "fr": "French", "sw": "Swahili"}
        words = ", ".join(names[data["languages"][data["language"][of]]] for of in missed) or "none"
        assert page.text_content("#missing").endswith(f"; after: {words}.")
        shown = [float(text) for text in page.locator("#after .small").all_inner_texts()]
        assert np.allclose(shown, layer["cosines"][EN, number] / 100)
        assert page.evaluate(POINTS) == layer["planes"][number][:, 0].tolist()
    assert len(lines) > 4
    page.locator("#projection").select_option(label="t-SNE")
    numbers = [method["name"] for method in layer["methods"]].index(method) + 1
    assert page.evaluate(POINTS) == layer["tsne"][numbers][:, 0].tolist()
    page.locator("[data-copies=command]").click()
    assert page.evaluate("getSelection().toString()") == page.text_content("#command")


def test_the_code_fits_what_is_chosen_and_encodes_as_was_measured(open_page, case, tmp_path, monkeypatch):
    page, x = open_page(), {code: np.random.default_rng(i).normal(size=(2, 9, 6)) for i, code in enumerate(CODES)}
    monkeypatch.chdir(tmp_path)
    page.locator("#layer").select_option(label="12")
    page.locator("#method").select_option(label="mean+lsar")
    set_rank(page, 3)
    exec(page.text_content("#command"), {"x": x})
    for name in ("documents", "query"):
        np.save(f"{name}.npy", x["ar"][1])
    exec(page.text_content("#loading-NumPy"), made := {})
    right = fit_mean_then_lsar({code: rows[1] for code, rows in x.items()}, 3)(x["ar"][1])
    assert np.allclose(made["vectors"], right / np.linalg.norm(right, axis=1, keepdims=True), atol=1e-6)
    usage = Usage(
        "lj.load_encoder('E', layer={layer})", "max_length=9, language='{language}'", "--encoder E --texts a.txt"
    )
    page.set_content(replace(case[2], usage=usage)._repr_html_())  # as a notebook shows it
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    assert frame.locator("#verdict").inner_text() == expected(case[0], 0, "lsar", first_rank(case[0]), EN)[2]
    frame.locator("#method").select_option(label="lir")
    assert frame.locator("#command").text_content() == (
        "lsar-jax fit lir lir.safetensors --layer 8 --encoder E --texts a.txt"
    )
    loading = frame.locator("#loading-faiss").text_content()
    assert "encoder = lj.load_encoder('E', layer=8).with_transform(transform)\n" in loading
    assert "encode(\"a question\", normalize=True, max_length=9, language='en')" in loading


def test_the_page_opens_at_what_a_report_recommends(browser, case):
    for layer, transform, rank, shown, said in (
        (12, "mean+lsar", 3, "12 mean+lsar 3 of 4", "opens there. Without the report, it would open at layer 8, lsar"),
        (8, "lsar", 9, "8 lsar 4 of 4", "layer 8, lsar rank=9, on held-out text. The page opens at the nearest"),
        (
            12,
            "mine",
            3,
            "8 lsar 4 of 4",
            "is not on this page; this page has only the library's maps. The page opens at",
        ),
        (10, "lsar", 3, "8 lsar 4 of 4", "add it by --layers 10. The page opens at layer 8, lsar, rank 4: the lowest"),
    ):
        recommended = {"layer": layer, "transform": transform, "parameters": {"rank": rank}}
        recommended["known"] = transform != "mine"
        page = browser.new_page()
        page.set_content(replace(case[2], data={**case[2].data, "recommended": recommended}).html)
        page.wait_for_selector("body[data-ready]")
        chosen = page.locator("#layer, #method").evaluate_all("all => all.map(of => of.selectedOptions[0].label)")
        assert " ".join([*chosen, page.inner_text("#rank-value")]) == shown
        assert said in page.inner_text("#opening")


def test_the_keyboard_alone_is_enough(open_page, case):
    data = case[0]
    page = open_page()
    page.locator("#whole").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "all"
    page.locator("#rank").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#rank-value") == "3 of 4"
    assert page.inner_text("#verdict") == expected(data, 0, "lsar", 3, EN)[2]
    page.locator("#find").focus()
    page.keyboard.type("fr number 7 ")
    assert page.inner_text("#list-note") == "1 sentence"
    page.keyboard.press("Tab")  # past the button
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    row = data["texts"].index(next(text for text in data["texts"] if text.startswith("fr number 7 ")))
    assert page.inner_text("#chosen [lang=fr]") == data["texts"][row]
    assert page.inner_text("#verdict") == expected(data, 0, "lsar", 3, row)[2]
    nearest = shown_rows(page, "after")[0]
    page.locator("#after button").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "chosen"
    assert page.inner_text("#chosen [lang]") == data["texts"][nearest]
    # An entry of 70 characters has whole syllables.
    page.locator("#find").fill("sw number 7 ")
    assert page.inner_text("#list [lang=sw]") == f"sw number 7 {'क्षि' * 57}…"


def test_groups_that_no_browser_can_name(browser, tmp_path):
    codes = ("de", "x-law", "x-news", "art-x-a")
    x = planted_text.planted(np.random.default_rng(2), LINES, 16, codes=codes, noise=0.4, apart=1.2)
    groups = lj.explore(x, {code: [f"{code} {line}" for line in range(LINES)] for code in codes})
    groups.save(path := tmp_path / "groups.html")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    names = page.locator("#legend tr button").all_inner_texts()
    assert [name[1:] for name in names] == ["art-x-a", "German", "x-law", "x-news"]
    page.locator("#find").fill("x-law 7")
    assert [name[1:] for name in page.locator("#list .code").all_inner_texts()] == ["x-law"]
    page.close()


def test_languages_are_hidden_by_the_legend(open_page):
    page = open_page()
    count = f"{POINTS}.filter(Number.isFinite).length"
    for name, languages in (("German", 4), ("Hide all", 0), ("Show all", 5)):
        page.get_by_role("button", name=name, exact=True).click()
        assert page.evaluate(count) == languages * LINES
    assert page.get_by_role("button", name="German", exact=True).get_attribute("aria-pressed") == "true"


def pixel(page, row):
    """Where the point of a row is in the window."""
    return page.evaluate(
        """(row) => {
          const plot = Bokeh.documents[0].get_model_by_name("plot"), view = Bokeh.index.get_one(plot);
          const { x, y } = Bokeh.documents[0].get_model_by_name("points").data;
          const box = view.el.getBoundingClientRect();
          return [box.left + view.frame.x_scale.compute(x[row]), box.top + view.frame.y_scale.compute(y[row])];
        }""",
        row,
    )


def test_hover_shows_the_sentence_and_a_click_chooses_it(open_page, case):
    data = case[0]
    page = open_page()
    page.locator("#frame").scroll_into_view_if_needed()
    assert page.locator("#tip").is_hidden()
    for row in (3, 77):
        page.mouse.move(*pixel(page, row))
        page.wait_for_selector("#tip:not([hidden])")
        assert data["texts"][row] in page.inner_text("#tip")
        page.wait_for_timeout(500)  # two clicks one after the other are a double click to Bokeh
        page.mouse.click(*pixel(page, row))
        text = "document.querySelector('#chosen [lang]').innerText"
        page.wait_for_function(f"() => document.getElementById('tip').innerText.includes({text})")
        chosen = page.evaluate(text)
        # Where points overlap, it is one of them.
        assert chosen == data["texts"][row] or page.inner_text("#tip").count("number") > 1
        assert (
            page.inner_text("#verdict") == expected(data, 0, "lsar", first_rank(data), data["texts"].index(chosen))[2]
        )
    page.mouse.move(0, 0)
    page.wait_for_selector("#tip", state="hidden")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_it_fits_the_window_in_light_and_dark(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
    assert dark == (scheme == "dark")
    assert page.evaluate("Bokeh.documents[0].get_model_by_name('ring').glyph.line_color.value") == (
        "#ffffff" if dark else "#000000"
    )
    # On a phone, the neighbours before and after are shown one at a time.
    for side, other in (("before", "after"), ("after", "before")):
        if width == 390:
            page.locator(f"#sides [data-side={side}]").click()
            assert page.locator(f"#{other}").is_hidden()
        assert page.locator(f"#{side}").is_visible()
    # Every field and button has a name for a screen reader.
    unnamed = page.locator("button, input, select").evaluate_all(
        "all => all.filter(e => !e.ariaLabel && !e.innerText?.trim() && !e.labels?.length).map(e => e.outerHTML)"
    )
    assert unnamed == []
