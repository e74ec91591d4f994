"""Heads of meaning and language in the evaluations: against retrieval by hand, and the tables made of it."""

import shutil
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

from eval.__main__ import main
from eval.data.tatoeba import read_pairs
from eval.figures import leakage as figures
from eval.scores.heads import chance, summary
from lsar_jax import Transform
from lsar_jax.console.output import console
from lsar_jax.files import write_json
from lsar_jax.measures.results import read_results
from lsar_jax.objectives.disentangle import Head
from lsar_jax.transforms.methods.trained_head import head_transform
from tests.dataset_hub import write_rows
from tests.eval.test_sts17 import write as write_track
from tests.eval.test_tasks import ENCODER, evaluated, is_png, read, write_pairs
from tests.fake_encoder import FakeEncoder
from tests.reference import unit
from train.disentangle.finished import PARTS, TrainedRun, check_text
from train.text import TextOptions, text_hash

pytestmark = pytest.mark.usefixtures("fake")

OBJECTIVES = ("meat", "meat + oracle (code)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, fake):
    """Bitext, Tatoeba, STS17 and dictionaries of two languages, and two runs of two seeds."""
    folder = tmp_path_factory.mktemp("leakage")
    rng = np.random.default_rng(0)

    def sentences(count):
        return [" ".join(rng.choice(list("abcdefgh"), 7)) for _ in range(count)]

    english = sentences(60)
    for code, three in (("de", "deu"), ("fr", "fra")):
        rows = [("d", text, text.translate(str.maketrans("ab", "xy"))) for text in english]
        write_rows(folder, f"bitext/en-{code}.tsv", rows)
        text = sentences(12)
        other = [line.translate(str.maketrans("cd", "zw")) for line in text]
        write_pairs(folder / "tatoeba", three, "\n".join(text), "\n".join(other))
        write_rows(folder, f"dictionaries/{code}-en.txt", ["z c", "w d", "a a"])
    write_track(folder / "sts17", "1.en-de", list(zip(sentences(9), sentences(9), strict=True)), np.arange(9) / 2)
    for name, objective in zip(("meat", "meat-oracle"), OBJECTIVES, strict=True):
        write_run(folder / name, folder / "bitext", objective)
    return folder


def write_run(folder, data, objective, seeds=(0, 1), **changes):
    """Writes what train.disentangle leaves in its folder, with random heads that depend on objective, seed and part."""
    spec = FakeEncoder(2).spec
    text = {"held_out": 10, "split_seed": 0, "validation": 0.05}
    pairs = TextOptions(data, languages=("de", "fr"), **text).pairs()
    config = {
        "encoder": ENCODER[1], "revision": None, "pooling": None, "dtype": "float32", "encoder_spec": spec.to_dict(),
        "max_length": 128, "data": str(data), "split": "", "text": text_hash(pairs), "without": [], "patience": 30,
        "pairs": {code: list(map(len, two)) for code, two in pairs.items()}, "learning_rate": 1e-3, "batch": 16, **text,
    }  # fmt: skip
    folder.mkdir()
    write_json(folder / "config.json", config | changes)
    ends = [{"seed": seed, "validation": 1.0, "best_epoch": 1, "stopped_by": "epochs"} for seed in seeds]
    write_json(folder / "trained.json", {"objective": objective, "epochs": 2, "steps": 10, "seeds": ends})
    for seed in seeds:
        (folder / f"seed-{seed}").mkdir()
        for part in PARTS:
            rng = np.random.default_rng([seed, *f"{objective} {part}".encode()])
            head = Head(jnp.asarray(rng.normal(size=(32, 32)), jnp.float32), jnp.ones(32))
            made = head_transform(head, part, objective, {"de": 50, "en": 50, "fr": 50}, source=spec, seed=seed)
            made.save(folder / f"seed-{seed}" / f"{part}.safetensors")
    return str(folder)


def data(folder):
    return [
        "--tatoeba", str(folder / "tatoeba"), "--languages", "de", "fr", "--sts17", str(folder / "sts17"),
        "--dictionaries", str(folder / "dictionaries"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def printed(folder):
    """The tables of both runs that leakage prints."""
    runs = [str(folder / name) for name in ("meat", "meat-oracle")]
    with console.capture() as captured:
        assert main(["leakage", *runs, *data(folder), "--pictures", "fr", "--out", str(folder / "out")]) == 0
    return captured.get()


@pytest.fixture(scope="module")
def leakage(folder, printed):
    return folder / "out"


def heads(folder, seed):
    """The maps of meaning and of language of a seed, on embeddings in float64."""
    found = [Transform.load(folder / f"seed-{seed}" / f"{part}.safetensors").as_affine() for part in PARTS]
    return [lambda x, a=a, b=b: unit(x.astype(float) @ np.asarray(a, float).T + b) for a, b in found]


def test_scores_are_those_by_hand(folder, leakage):
    encoder = FakeEncoder(2)
    pairs = read_pairs(folder / "tatoeba", ["de", "fr"])
    sides = [[encoder.encode(side) for side in two] for two in pairs.values()]
    results = read(leakage)
    found = (r for r in results if r["task"] == "tatoeba")
    values = {(r["transform"], r["parameters"].get("objective"), r["seed"], r["metric"]): r["value"] for r in found}
    for run, objective in zip(("meat", "meat-oracle"), OBJECTIVES, strict=True):
        for seed in (0, 1):
            for part, head in zip(PARTS, heads(folder / run, seed), strict=True):
                hits = [np.argmax(head(x) @ head(y).T, axis=1) == np.arange(len(x)) for x, y in sides]
                expected = 100 * np.mean([rows.mean() for rows in hits])
                assert values[part, objective, seed, "en-xx mean over 2"] == pytest.approx(expected)
    for task in ("tatoeba", "bitext", "code-switch", "sts17"):
        of_task = [r for r in results if r["task"] == task and " p of " not in r["metric"]]
        assert {(r["transform"], r["seed"]) for r in of_task} == {
            ("original", None), ("meaning", 0), ("meaning", 1), ("language", 0), ("language", 1),
        }  # fmt: skip
        for r in of_task:
            assert r["options"]["trained_on"] == str(folder / "bitext")
            assert r["transform"] == "original" or r["fitted_on"].endswith(f"{r['transform']}.safetensors")
    for name in ("leakage", "held-out", "sts", "bases", "held-out-2-fr"):
        assert is_png(leakage / f"{name}.png")


def test_the_tables(leakage, printed):
    results = read_results(leakage / "results.jsonl")
    scores = summary(results)
    assert list(scores) == [(2, "original", "meaning"), *((2, name, part) for name in OBJECTIVES for part in PARTS)]
    # Retrieval is the mean of both directions.
    of_meat = [r for r in results if r.parameters.get("objective", "meat") == "meat"]
    values = {(r.task, r.transform, r.seed, r.metric): r.value for r in of_meat}
    ways = [f"{way} mean over 2" for way in ("en-xx", "xx-en")]
    expected = [np.mean([values["bitext", "language", seed, way] for way in ways]) for seed in (0, 1)]
    assert scores[2, "meat", "language"]["held-out"] == pytest.approx(expected)
    # Mean and sample deviation: of two, half their distance times the root of two.
    rows = [line for line in printed.splitlines() if line.startswith("│ meat  ")]
    assert len(rows) == 3
    assert f"{np.mean(expected):.1f} ± {abs(expected[0] - expected[1]) / np.sqrt(2):.1f}" in rows[1]
    [line] = [line for line in printed.splitlines() if "│ 2, meat  " in line and "0.001, 16, 30" in line]
    assert "1* 1*" in line
    # The languages that were trained on have a column of their own.
    assert "Tatoeba (trained), m" in " ".join(printed.split())
    of_german = np.mean([values["tatoeba", "meaning", 1, f"{way} accuracy"] for way in ("en-de", "de-en")])
    assert summary(results, ["de"])[2, "meat", "meaning"]["Tatoeba (trained)"][1] == pytest.approx(of_german)
    assert "Tatoeba (trained)" not in scores[2, "meat", "meaning"]
    # The significance of ORACLE: all ways to exchange both methods' mean scores of nine pairs, instead of 10,000 draws.
    of = [r for r in results if (r.metric, r.transform) == ("Spearman mean", "language")]
    base, oracle = (sum(r.queries.values for r in of if r.parameters["objective"] == name) for name in OBJECTIVES)
    far = np.abs((oracle - base) @ np.array(list(product((-1, 1), repeat=9))).T) >= abs((oracle - base).sum()) - 1e-9
    p = {(r.task, r.transform): r.value for r in results if r.metric.endswith(" p of ORACLE")}
    assert p["sts17", "language"] == pytest.approx(far.mean(), abs=0.02)
    assert p.keys() == set(product(("tatoeba", "bitext", "code-switch", "sts17"), PARTS))
    # 12 pairs of Tatoeba and 10 that are held out, in both languages; STS17 has no chance level.
    by_chance = chance(results, ("de",))
    assert by_chance["Tatoeba"] == by_chance["Tatoeba (trained)"] == pytest.approx(100 / 12)
    assert by_chance["held-out"] == pytest.approx(10)
    assert set(by_chance) == {"Tatoeba", "Tatoeba (trained)", "held-out", "code-switched"}


def test_saved_transforms_in_any_task(folder, tmp_path, refused):
    meaning = folder / "meat" / "seed-1" / "meaning.safetensors"
    command = [*ENCODER, "--data", str(folder / "sts17"), "--saved", str(meaning)]
    results = evaluated(tmp_path, "sts17", *command, "--layers", "1", "2", "--transforms", "original")
    saved = {(r["layer"], r["fitted_on"], r["seed"]) for r in results if r["transform"] == "meaning"}
    assert saved == {(2, str(meaning), 1)}
    error = refused(main, ["sts17", *command, "--layers", "1", "--out", tmp_path / "other"])
    assert "meaning.safetensors was fitted on other embeddings than this task uses: " in error


def test_seeds_are_put_together_and_ablations_are_not_drawn(folder, leakage, tmp_path, monkeypatch, capsys):
    runs = [
        write_run(tmp_path / name, folder / "bitext", objective, seeds, without=without)
        for name, objective, seeds, without in (
            ("first", "meat", (0,), []), ("second", "meat", (1,), []),
            ("ablation", "meat - adversarial", (0,), ["adversarial"]),
            # It is made of DREAM's losses without most of its terms, but it is no ablation.
            ("alone", "oracle alone2", (0,), ["reconstruction", "language"]),
        )
    ]  # fmt: skip
    drawn = {}
    monkeypatch.setattr(figures, "pair_planes", lambda panels, *_: drawn.update(planes=list(panels)))
    monkeypatch.setattr(figures, "leakage", lambda *_, **__: None)
    monkeypatch.setattr(figures, "objective_bars", lambda scores, *_: drawn.update(bases={at[1] for at in scores}))
    options = data(folder)
    options[options.index("--sts17") + 1] = str(tmp_path / "nowhere")
    assert main(["leakage", *runs, *options, "--pictures", "fr", "--out", str(tmp_path / "out")]) == 0
    assert f"not run: sts17: there is no folder {tmp_path / 'nowhere'}" in capsys.readouterr().out
    assert drawn == {"planes": ["meat", "oracle alone2"], "bases": {"original", "meat", "oracle alone2"}}
    whole, parts = (summary(read_results(out / "results.jsonl")) for out in (leakage, tmp_path / "out"))
    for part in ("meaning", "language"):
        shared = {name: values for name, values in whole[2, "meat", part].items() if name != "STS17"}
        assert parts[2, "meat", part] == shared
        ablation = parts[2, "meat - adversarial", part]
        assert {name: len(values) for name, values in ablation.items()} == dict.fromkeys(shared, 1)


def test_refusals(folder, tmp_path, refused):
    def error_of(*runs, more=()):
        return refused(main, ["leakage", *runs, *data(folder), *more, "--out", tmp_path / "out"])

    meat, run = folder / "meat", tmp_path / "run"
    run.mkdir()
    for name, message in (("config", "config.json"), ("trained", "no trained.json"), ("", "meaning.safetensors")):
        assert message in error_of(run)
        if name:
            shutil.copy(meat / f"{name}.json", run)
    assert "both are 'meat' at layer 2 and have seed 0; omit one" in error_of(meat, meat)
    other = write_run(tmp_path / "other", folder / "bitext", "meat", (2,), split_seed=1)
    assert f"{other} cannot be compared with {meat}: split_seed was 0 and is now 1" in error_of(meat, other)
    # Seeds of one objective are put together where they were trained alike.
    other = write_run(tmp_path / "rate", folder / "bitext", "meat", (2,), learning_rate=0.5)
    assert "learning_rate was 0.001 and is now 0.5; omit one" in error_of(meat, other)
    # The text may be gone, but not another one.
    check_text(folder / "bitext", TrainedRun.load(meat))
    check_text(tmp_path / "nowhere", TrainedRun.load(meat))
    shutil.copytree(folder / "bitext", tmp_path / "bitext")
    path = tmp_path / "bitext" / "en-de.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[5:]))
    error = error_of(meat, more=["--bitext", tmp_path / "bitext"])
    assert "bitext is not the text that the heads were trained on" in error
