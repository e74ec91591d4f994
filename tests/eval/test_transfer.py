"""The table of transfer, and its test over seeds, from scores that are made up."""

import json
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.report.seed_scores import AVERAGE, MEAN, seed_test, transfer_rows
from lsar_jax import EncoderSpec
from lsar_jax.measures.results import read_results
from tests.dataset_hub import write_rows

SCORES = {"bundled": [70.0, 72.0, 74.0], "strong": [75.0, 76.5, 77.0], "weak": [73.0, 72.5, 71.0]}
CONFIG = {
    "task": "pos", "train": "t.conllu", "dev": None, "files": {"t.conllu": "0"}, "features": False, "epochs": 5,
    "trained_blocks": None, "dtype": "float32", "max_length": 128, "most": None, "most_tested": None,
}  # fmt: skip


def write(folder, name, *, config=None, scores=None, maps=""):
    """Scores of three seeds in English, German and French; French has German's, less 10, in the opposite order."""
    seeds, values = {}, scores or SCORES[name]
    for number, value in enumerate(values):
        by_test = {
            "en_ewt": {"language": "en", "n": 9, "mapped": False, "accuracy": 95.0 + number},
            "de_pud": {"language": "de", "n": 5, "mapped": bool(maps), "accuracy": value},
            "fr_pud": {"language": "fr", "n": 5, "mapped": False, "accuracy": values[-1 - number] - 10},
        }
        seeds[str(12 + number)] = {"scores": by_test}
    encoder = EncoderSpec(name, f"sha256:{name}", 12, "mean", "float32").to_dict()
    transfer = {"task": "pos", "metric": "accuracy", "encoder": encoder, "maps": maps, "seeds": seeds}
    write_rows(folder, f"{name}/transfer.json", [transfer])
    write_rows(folder, f"{name}/config.json", [CONFIG | (config or {})])
    return str(folder / name)


@pytest.fixture
def results(tmp_path):
    folders = [write(tmp_path, name) for name in SCORES]
    assert main(["transfer", *folders, "--out", str(tmp_path / "pos")]) == 0
    return read_results(tmp_path / "pos" / "results.jsonl")


def test_means_spreads_and_marks(results):
    rows = transfer_rows(results)
    assert list(rows) == list(SCORES)
    base, strong, weak = rows.values()
    assert list(base) == ["en_ewt", "de_pud", "fr_pud", MEAN, AVERAGE]
    german = base["de_pud"]
    assert (german.mean, german.std, german.mark) == (72, pytest.approx(2), "")
    # Two standard deviations above, and a fraction of one.
    assert [row["de_pud"].mark for row in (strong, weak)] == ["+", ""]
    assert strong["en_ewt"].mark == ""
    below = transfer_rows(sorted(results, key=lambda result: result.encoder != "strong"))
    assert [below[name]["de_pud"].mark for name in ("bundled", "weak")] == ["-", "-"]
    # English does not count in the mean, whose spread is both that of the mean and the mean of the tests'. Here the
    # mean is the same for each seed.
    mean = base[MEAN]
    assert (mean.mean, mean.of_mean, mean.std) == pytest.approx((67, 0, 2))
    assert str(mean) == "67.0 ± 2.0 (0.0)"
    # The marks go by the mean of the tests' spreads.
    assert [str(row[MEAN]) for row in (strong, weak)] == ["71.2+ ± 1.0 (0.3)", "67.2 ± 1.0 (0.3)"]
    assert str(strong["de_pud"]) == "76.2+ ± 1.0"
    # Every mean of strong is above the others: in 2 of the 20 ways to assign the scores they are as far apart.
    assert seed_test(results, "bundled", "strong") == pytest.approx((25 / 6, 0.1, 0.1))


def changed(folder, **changes):
    """Rewrites the scores in a folder; changes of the encoder are those of its fields."""
    path = Path(folder) / "transfer.json"
    transfer = json.loads(path.read_text())
    encoder = transfer["encoder"] | changes.pop("encoder", {})
    path.write_text(json.dumps(transfer | changes | {"encoder": encoder}))


def test_maps_and_layers_have_rows_of_their_own(tmp_path):
    plain = write(tmp_path, "bundled")
    mapped = write(tmp_path, "strong", scores=[71.0, 72.0, 73.0], maps="linear maps")
    lower = write(tmp_path, "weak")
    same = {"id": "bundled", "revision": "sha256:bundled"}
    changed(mapped, encoder=same, alignment={"objective": "linear", "steps": 6, "batch": 8, "learning_rate": 0.5})
    changed(lower, encoder=same | {"layer": 8})
    assert main(["transfer", plain, mapped, "--out", str(tmp_path / "pos")]) == 0
    results = read_results(tmp_path / "pos" / "results.jsonl")
    assert list(transfer_rows(results)) == ["bundled", "bundled + linear"]
    names = [f"alignment_{name}" for name in ("steps", "batch", "learning_rate")]
    found = {result.transform: [result.options[name] for name in names] for result in results}
    assert found == {"original": [None, None, None], "linear": [6, 8, 0.5]}
    assert main(["transfer", plain, lower, "--out", str(tmp_path / "layers")]) == 0
    rows = transfer_rows(read_results(tmp_path / "layers" / "results.jsonl"))
    assert list(rows) == ["bundled, layer 12", "bundled, layer 8"]


def test_english_alone_has_no_mean_of_other_languages(tmp_path, printed):
    # A copy of the files is the same text.
    copied = {"train": "x/t.conllu", "files": {"x/t.conllu": "0"}}
    folders = [write(tmp_path, "bundled"), write(tmp_path, "strong", config=copied)]
    for folder in folders:
        english = {str(seed): {"scores": {"en_ewt": {"language": "en", "n": 9, "accuracy": 95.0}}} for seed in (1, 2)}
        changed(folder, seeds=english)
    assert MEAN not in printed(main, ["transfer", *folders, "--out", tmp_path / "pos"])


def test_what_cannot_be_compared(tmp_path, refused):
    def error_of(*folders):
        return refused(main, ["transfer", *folders, "--out", tmp_path / "pos"])

    bundled = write(tmp_path, "bundled")
    for config, message in (
        ({"train": "t.conllu", "files": {"t.conllu": "1"}}, "has test t.conllu 'the file 1', but"),
        ({"dtype": "bfloat16"}, "has dtype 'bfloat16', but"),
        ({"epochs": 3}, "has epochs 3, but"),
    ):
        assert message in error_of(bundled, write(tmp_path, "strong", config=config))
    changed(strong := write(tmp_path, "strong"), metric="f1")
    assert f"{strong}/transfer.json: a score lacks a name: there is no 'f1'" in error_of(bundled, strong)
    error = error_of(bundled, bundled)
    assert "bundled has scores of bundled, layer 12, sha256:bundled, original, seed 12, and so has another" in error
    strong = write(tmp_path, "strong")
    changed(strong, encoder={"id": "bundled"})
    assert "two encoders are named bundled; rename the folder of one" in error_of(bundled, strong)
    assert "there is no transfer.json" in error_of(tmp_path)
