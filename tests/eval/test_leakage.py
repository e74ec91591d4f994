"""Heads of meaning and language in the evaluations: against retrieval by hand, and the tables made of it."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from eval.__main__ import main
from eval.data.tatoeba import read_pairs
from eval.figures import leakage as figures
from eval.results import read_results
from eval.tasks.leakage import chance, summary
from lsar_jax import Transform
from lsar_jax.cli.console import console
from lsar_jax.corpora.parallel_text import held_out, read_bitext
from tests.eval.test_tasks import ENCODER, is_png, read, write_pairs
from tests.fake_encoder import FakeEncoder
from tests.optional import need
from train.disentangle.finished import PARTS, TrainedRun, check_text

pytestmark = pytest.mark.usefixtures("fake")
need("optax")

from train.disentangle.__main__ import main as train  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fake):
    """Bitext, Tatoeba, STS17 and dictionaries of two languages, and two runs of two seeds."""
    folder = tmp_path_factory.mktemp("leakage")
    rng = np.random.default_rng(0)

    def sentences(count):
        return [" ".join(rng.choice(list("abcdefgh"), 7)) for _ in range(count)]

    (folder / "bitext").mkdir()
    english = sentences(60)
    for code in ("de", "fr"):
        rows = [f"d\t{text}\t{text.translate(str.maketrans('ab', 'xy'))}\n" for text in english]
        (folder / "bitext" / f"en-{code}.tsv").write_text("".join(rows))
    for code in ("deu", "fra"):
        text = sentences(12)
        other = [line.translate(str.maketrans("cd", "zw")) for line in text]
        write_pairs(folder / "tatoeba", code, "\n".join(text), "\n".join(other))
    (folder / "sts17").mkdir()
    lines = [f"{a}\t{b}\n" for a, b in zip(sentences(9), sentences(9), strict=True)]
    (folder / "sts17" / "STS.input.track1.en-de.txt").write_text("".join(lines))
    (folder / "sts17" / "STS.gs.track1.en-de.txt").write_text("".join(f"{n / 2}\n" for n in range(9)))
    (folder / "dictionaries").mkdir()
    for code in ("de", "fr"):
        (folder / "dictionaries" / f"{code}-en.txt").write_text("z c\nw d\na a\n")
    options = [
        *ENCODER, "--data", str(folder / "bitext"), "--cache", str(folder / "cache"), "--layer", "2",
        "--held-out", "10", "--batch", "16", "--learning-rate", "1e-3", "--epochs", "2", "--seeds", "2",
    ]  # fmt: skip
    assert train([*options, "--out", str(folder / "meat")]) == 0
    assert train([*options, "--oracle", "--separation", "code", "--out", str(folder / "meat-oracle")]) == 0
    return folder


def data(folder):
    return [
        "--tatoeba", str(folder / "tatoeba"), "--languages", "de", "fr", "--sts17", str(folder / "sts17"),
        "--dictionaries", str(folder / "dictionaries"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def printed(folder):
    """What leakage prints of both runs."""
    runs = [str(folder / name) for name in ("meat", "meat-oracle")]
    with console.capture() as captured:
        assert main(["leakage", *runs, *data(folder), "--pictures", "fr", "--out", str(folder / "out")]) == 0
    return captured.get()


@pytest.fixture(scope="module")
def leakage(folder, printed):
    return folder / "out"


def test_scores_are_those_by_hand(folder, leakage):
    encoder = FakeEncoder(2)
    pairs = read_pairs(folder / "tatoeba", ["de", "fr"])
    values = {
        (r["transform"], r["parameters"].get("objective"), r["seed"], r["metric"]): r["value"]
        for r in read(leakage)
        if r["task"] == "tatoeba"
    }
    for run, objective in (("meat", "meat"), ("meat-oracle", "meat + oracle (code)")):
        for seed in (0, 1):
            for part in ("meaning", "language"):
                matrix, offset = Transform.load(folder / run / f"seed-{seed}" / f"{part}.safetensors").as_affine()
                found = []
                for sides in pairs.values():
                    x, y = (encoder.encode(side).astype(float) @ matrix.T + offset for side in sides)
                    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
                    found.append(100 * np.mean(np.argmax(x @ y.T, axis=1) == np.arange(len(x))))
                assert values[part, objective, seed, "en-xx mean over 2"] == pytest.approx(np.mean(found))
    assert values["original", None, None, "xx-en mean over 2"] >= 0


def test_every_task_has_both_parts(leakage):
    results = read(leakage)
    assert {r["task"] for r in results} == {"tatoeba", "bitext", "code-switch", "sts17"}
    for task in ("tatoeba", "bitext", "code-switch", "sts17"):
        of = [r for r in results if r["task"] == task]
        assert {(r["transform"], r["seed"]) for r in of} == {
            ("original", None), ("meaning", 0), ("meaning", 1), ("language", 0), ("language", 1),
        }  # fmt: skip
        for r in of:
            named = r["fitted_on"].endswith(f"{r['transform']}.safetensors")
            assert named or r["transform"] == "original"
    pictures = ("held-out-2-meat", "held-out-2-meat---oracle--code-")
    for name in ("leakage", "sts", "bases", "embeddings-2", *pictures):
        assert is_png(leakage / f"{name}.png")


def test_similarities_are_those_by_hand(folder, leakage, printed):
    lines = [json.loads(line) for line in (leakage / "similarities.jsonl").read_text().splitlines()]
    found = {(line["objective"], line["language"]): line for line in lines}
    assert list(found) == [(name, code) for name in ("meat", "meat + oracle (code)") for code in ("en", "de", "fr")]
    encoder = FakeEncoder(2)
    held = held_out(read_bitext(folder / "bitext", (), "--data")["fr"], 10, 0)[1]
    sides = [encoder.encode([pair[n] for pair in held]).astype(float) for n in (0, 1)]
    expected = []
    for seed in (0, 1):
        maps = [Transform.load(folder / "meat" / f"seed-{seed}" / f"{part}.safetensors").as_affine() for part in PARTS]
        (em, el), (om, ol) = ([unit(x @ np.asarray(a, float).T + b) for a, b in maps] for x in sides)
        off = ~np.eye(10, dtype=bool)
        expected.append({
            "meaning and language": (om * ol).sum(axis=1).mean(),
            "meanings of translations": (om * em).sum(axis=1).mean(),
            "meanings of others": (om @ om.T)[off].mean(),
            "languages of translations": (ol * el).sum(axis=1).mean(),
            "languages of others": (ol @ ol.T)[off].mean(),
        })  # fmt: skip
    for name in expected[0]:
        assert found["meat", "fr"][name] == pytest.approx(np.mean([one[name] for one in expected]), abs=1e-5), name
    assert "Cosines on held-out pairs" in printed


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_level_of_chance(leakage, printed):
    # 12 pairs of Tatoeba and 10 that are held out, in both languages; STS17 has no chance level.
    by_chance = chance(read_results(leakage / "results.jsonl"), ("de",))
    assert by_chance["Tatoeba"] == by_chance["Tatoeba (trained)"] == pytest.approx(100 / 12)
    assert by_chance["held-out"] == pytest.approx(10)
    assert set(by_chance) == {"Tatoeba", "Tatoeba (trained)", "held-out", "code-switched"}
    assert "chance" in printed


def test_the_table_has_the_mean_of_both_directions(leakage, printed):
    scores = summary(read_results(leakage / "results.jsonl"))
    assert list(scores) == [
        (2, "original", "meaning"),
        *((2, name, part) for name in ("meat", "meat + oracle (code)") for part in ("meaning", "language")),
    ]
    values = {
        (r["metric"], r["seed"]): r["value"]
        for r in read(leakage)
        if r["task"] == "bitext" and r["transform"] == "language" and r["parameters"]["objective"] == "meat"
    }
    assert "Tatoeba (trained), m" in " ".join(printed.split())
    expected = [np.mean([values[f"{way} mean over 2", seed] for way in ("en-xx", "xx-en")]) for seed in (0, 1)]
    assert scores[2, "meat", "language"]["held-out"] == pytest.approx(expected)
    # Mean and sample deviation: of two, half their distance times the root of two.
    deviation = abs(expected[0] - expected[1]) / np.sqrt(2)
    rows = [line for line in printed.splitlines() if line.startswith("│ meat  ")]
    assert len(rows) == 3
    assert f"{np.mean(expected):.1f} ± {deviation:.1f}" in rows[1]
    [line] = [line for line in printed.splitlines() if "│ 2, meat  " in line and "0.001, 16, 10" in line]
    # Both seeds got better until --epochs ended them.
    assert "1* 1*" in line
    assert len(scores[2, "original", "meaning"]["STS17"]) == 1


def test_saved_transforms_in_any_task(folder, tmp_path, capsys):
    meaning = folder / "meat" / "seed-1" / "meaning.safetensors"
    command = [*ENCODER, "--data", str(folder / "sts17"), "--saved", str(meaning)]
    assert main(["sts17", *command, "--layers", "1", "2", "--transforms", "original", "--out", str(tmp_path)]) == 0
    saved = [r for r in read(tmp_path) if r["transform"] == "meaning"]
    assert {r["layer"] for r in saved} == {2}
    assert {r["fitted_on"] for r in saved} == {str(meaning)}
    assert {r["seed"] for r in saved} == {1}
    assert main(["sts17", *command, "--layers", "1", "--out", str(tmp_path / "other")]) == 1
    assert "meaning.safetensors was fitted on other embeddings than this task uses: " in capsys.readouterr().err


def test_what_is_missing_is_said(folder, tmp_path, capsys):
    runs = [str(folder / "meat")]
    there = data(folder)
    there[there.index("--sts17") + 1] = str(tmp_path / "nowhere")
    assert main(["leakage", *runs, *there, "--out", str(tmp_path / "out")]) == 0
    assert f"not run: sts17: there is no folder {tmp_path / 'nowhere'}" in capsys.readouterr().out
    assert not (tmp_path / "out" / "sts.png").exists()


def test_refusals(folder, tmp_path, capsys):
    assert main(["leakage", str(tmp_path), *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert (
        f"{tmp_path} is not a run of train.disentangle: {tmp_path / 'config.json'} does not exist"
        in capsys.readouterr().err
    )
    (tmp_path / "config.json").write_text((folder / "meat" / "config.json").read_text())
    assert main(["leakage", str(tmp_path), *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert "has not finished" in capsys.readouterr().err
    (tmp_path / "trained.json").write_text((folder / "meat" / "trained.json").read_text())
    assert main(["leakage", str(tmp_path), *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert "lacks " in capsys.readouterr().err
    config = json.loads((folder / "meat" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"split_seed": 1}))
    for seed in (0, 1):
        (tmp_path / f"seed-{seed}").mkdir()
        for part in ("meaning", "language"):
            (tmp_path / f"seed-{seed}" / f"{part}.safetensors").touch()
    again = [str(folder / "meat"), str(folder / "meat")]
    assert main(["leakage", *again, *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert "meat are both 'meat' at layer 2 and both have seed 0; omit one" in capsys.readouterr().err
    runs = [str(folder / "meat"), str(tmp_path)]
    assert main(["leakage", *runs, *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert f"{tmp_path} has split_seed 1, but {folder / 'meat'} has 0; omit one" in capsys.readouterr().err
    # Seeds of one objective are put together where they were trained alike.
    (tmp_path / "config.json").write_text(json.dumps(config | {"learning_rate": 0.5}))
    trained = json.loads((folder / "meat" / "trained.json").read_text())
    seeds = [end | {"seed": 2 + end["seed"]} for end in trained["seeds"]]
    (tmp_path / "trained.json").write_text(json.dumps(trained | {"seeds": seeds}))
    for seed in (0, 1):
        (tmp_path / f"seed-{seed}").rename(tmp_path / f"seed-{2 + seed}")
    assert main(["leakage", *runs, *data(folder), "--out", str(tmp_path / "out")]) == 1
    assert f"'meat' at layer 2, but have learning_rate 0.5 and {config['learning_rate']}" in capsys.readouterr().err


def test_languages_that_were_trained_on_are_told_apart(leakage):
    results = read_results(leakage / "results.jsonl")
    values = {
        r.metric: r.value for r in results if (r.task, r.transform, r.seed) == ("tatoeba", "meaning", 1)
        and r.parameters["objective"] == "meat"
    }  # fmt: skip
    of_german = np.mean([values["en-de accuracy"], values["de-en accuracy"]])
    assert of_german != pytest.approx(np.mean([values["en-xx mean over 2"], values["xx-en mean over 2"]]))
    assert summary(results, ["de"])[2, "meat", "meaning"]["Tatoeba (trained)"][1] == pytest.approx(of_german)
    assert "Tatoeba (trained)" not in summary(results)[2, "meat", "meaning"]


def test_other_seeds_of_an_objective_are_put_together(folder, leakage, tmp_path, monkeypatch):
    config, trained = (json.loads((folder / "meat" / f"{name}.json").read_text()) for name in ("config", "trained"))
    runs = [tmp_path / "run-0", tmp_path / "run-1", tmp_path / "ablation"]
    for run, seed, without in zip(runs, (0, 1, 0), ((), (), ("adversarial",)), strict=True):
        run.mkdir()
        shutil.copytree(folder / "meat" / f"seed-{seed}", run / f"seed-{seed}")
        name = "meat - adversarial" if without else "meat"
        for part in ("meaning", "language"):
            path = run / f"seed-{seed}" / f"{part}.safetensors"
            head = Transform.load(path)
            parameters = (("objective", name), *head.fits[0].parameters[1:])
            replace(head, fits=(replace(head.fits[0], parameters=parameters),)).save(path)
        (run / "config.json").write_text(json.dumps(config | {"seed": seed, "seeds": 1, "without": without}))
        ends = {"objective": name, "seeds": trained["seeds"][seed : seed + 1]}
        (run / "trained.json").write_text(json.dumps(trained | ends))
    drawn = {}
    monkeypatch.setattr(figures, "pair_planes", lambda panels, *_: drawn.update(planes=list(panels)))
    monkeypatch.setattr(figures, "bases", lambda scores, *_: drawn.update(bases={name for _, name, _ in scores}))
    assert main(["leakage", *map(str, runs), *data(folder), "--out", str(tmp_path / "out")]) == 0
    # Ablations are in the table, and not in what shows the bases.
    assert drawn == {"planes": ["meat"], "bases": {"original", "meat"}}
    whole, parts = (summary(read_results(out / "results.jsonl")) for out in (leakage, tmp_path / "out"))
    for part in ("meaning", "language"):
        assert parts[2, "meat", part] == whole[2, "meat", part]
        assert {name: len(values) for name, values in parts[2, "meat - adversarial", part].items()} == dict.fromkeys(
            ("Tatoeba", "held-out", "code-switched", "STS17"), 1
        )


def test_oracle_alone_stands_beside_the_bases(folder, tmp_path, monkeypatch):
    options = [
        *ENCODER, "--data", str(folder / "bitext"), "--cache", str(folder / "cache"), "--layer", "2",
        "--held-out", "10", "--batch", "16", "--learning-rate", "1e-3", "--epochs", "1",
        "--oracle", "--separation", "alone", "--clustering", "all", "--out", str(tmp_path / "alone2"),
    ]  # fmt: skip
    left = ["reconstruction", "identification", "language", "clustering", "agreement"]
    assert train([*options, "--objective", "dream", "--halves", "--without", *left]) == 0
    drawn = {}
    monkeypatch.setattr(figures, "pair_planes", lambda panels, *_: drawn.update(planes=list(panels)))
    monkeypatch.setattr(figures, "bases", lambda scores, *_: drawn.update(bases={name for _, name, _ in scores}))
    runs = [str(folder / "meat"), str(tmp_path / "alone2")]
    assert main(["leakage", *runs, *data(folder), "--out", str(tmp_path / "out")]) == 0
    # It is made of DREAM's losses without most of its terms, but it is no ablation.
    assert drawn == {"planes": ["meat", "oracle alone2"], "bases": {"original", "meat", "oracle alone2"}}


def test_marker_and_colour_are_one_objective_in_every_panel(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: made.append(figure))
    score = {"Tatoeba": [1.0, 3.0]}
    names = {8: ["meat", "meat + oracle (code)", "oracle (code)"], 12: ["dream", "meat", "dream + oracle (code)"]}
    scores = {(at, name, part): score for at, several in names.items() for name in several for part in PARTS}
    figures.leakage(scores, (8, 12), tmp_path / "a.png")
    [figure] = made
    looks = [
        {
            name: (handle[0].get_marker(), handle[0].get_color())
            for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        for axis in figure.axes
    ]
    assert [list(of) for of in looks] == list(names.values())
    assert looks[0]["meat"] == looks[1]["meat"]
    every = looks[0] | looks[1]
    assert len(set(every.values())) == len(every) == 5
    # The base is the marker, what is added the colour.
    assert every["meat"][0] == every["meat + oracle (code)"][0] != every["dream"][0]
    assert every["meat + oracle (code)"][1] == every["oracle (code)"][1] == every["dream + oracle (code)"][1]
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set(every)
    assert [line.get_marker() for line in legend.get_lines()] == [marker for marker, _ in every.values()]
    # The titles of the panels are below that of the figure.
    figure.canvas.draw()
    above = figure._suptitle.get_window_extent().y0
    assert all(axis.title.get_window_extent().y1 < above for axis in figure.axes)


def test_fifteen_objectives_look_different(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: made.append(figure))
    names = ["meat", *(f"meat + oracle ({n})" for n in range(14))]
    scores = {(8, name, part): {"Tatoeba": [1.0]} for name in names for part in PARTS}
    figures.leakage(scores, (8,), tmp_path / "a.png")
    [[axis]] = [figure.axes for figure in made]
    looks = {(handle[0].get_marker(), handle[0].get_color()) for handle in axis.get_legend_handles_labels()[0]}
    assert len(looks) == len(names)


def test_text_that_has_changed_is_refused(folder, tmp_path, capsys):
    run = TrainedRun.load(folder / "meat")
    check_text(folder / "bitext", run)
    check_text(tmp_path / "nowhere", run)
    shutil.copytree(folder / "bitext", tmp_path / "bitext")
    path = tmp_path / "bitext" / "en-de.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[5:]))
    more = ["--bitext", str(tmp_path / "bitext"), "--out", str(tmp_path / "out")]
    assert main(["leakage", str(folder / "meat"), *data(folder), *more]) == 1
    assert "bitext is not the text that the heads were trained on" in capsys.readouterr().err
