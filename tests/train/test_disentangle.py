"""Training end to end: files, a run that is stopped, a run that stops, and what the evaluations make of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import lsar_jax as lj
from lsar_jax import Transform
from lsar_jax.corpora.parallel_text import held_out, read_bitext
from tests.dataset_hub import write_rows
from tests.train.runs import log_of, write_bitext
from train.ablations import Ablations, objectives
from train.disentangle.__main__ import main
from train.disentangle.finished import TrainedRun, check_comparable, oracle_weights
from train.loop import TrainingPosition
from train.text import TextOptions

ENCODER = str(Path(__file__).parents[1] / "golden" / "bert")
SHORT = ["--held-out", "15", "--batch", "16", "--learning-rate", "1e-3", "--layer", "2", "--max-length", "24"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bitext of two languages, 80 pairs each, and the cache of its embeddings."""
    folder = tmp_path_factory.mktemp("train")
    write_bitext(folder / "bitext")
    return folder


def command(folder, out, *more):
    data = ["--encoder", ENCODER, "--data", str(folder / "bitext"), "--cache", str(folder / "cache")]
    return [*data, *SHORT, "--out", str(out), *more]


def heads(out):
    """Both heads of the first seed, as numbers, and how they were made."""
    transforms = [Transform.load(out / "seed-0" / f"{part}.safetensors") for part in ("meaning", "language")]
    return [(*(part.tolist() for part in t.steps[0] if part is not None), t.fits, t.source) for t in transforms]


@pytest.fixture(scope="module")
def meat(folder):
    """A run of two seeds with ORACLE."""
    out = folder / "meat"
    assert main(command(folder, out, "--oracle", "--seeds", "2", "--epochs", "3")) == 0
    return out


def test_what_is_written(folder, meat, printed):
    encoder = lj.load_encoder(ENCODER, layer=2)
    for seed in (0, 1):
        for part in ("meaning", "language"):
            transform = Transform.load(meat / f"seed-{seed}" / f"{part}.safetensors")
            assert transform.languages is None
            assert transform.source == encoder.spec
            [fit] = transform.fits
            assert fit.method == part
            assert dict(fit.parameters) == {
                "objective": "meat + oracle (paper)", "learning_rate": 1e-3, "batch": 16, "seed": seed,
            }  # fmt: skip
            assert {code for code, _ in fit.fitted_on} == {"de", "en", "fr"}
            assert encoder.with_transform(transform).encode(["a b c"]).shape == (1, encoder.dim)
            transform.as_affine()
    assert (meat / "curves.png").read_bytes()[:4] == b"\x89PNG"
    config = json.loads((meat / "config.json").read_text())
    assert config["encoder_spec"] == encoder.spec.to_dict()
    # Of 65 pairs that are not held out 3 are to choose by.
    assert config["pairs"] == {"de": [62, 3], "fr": [62, 3]}
    trained = json.loads((meat / "trained.json").read_text())
    assert (trained["objective"], trained["epochs"]) == ("meat + oracle (paper)", 3)
    assert [(end["seed"], end["stopped_by"]) for end in trained["seeds"]] == [(0, "epochs"), (1, "epochs")]
    lines = log_of(meat)
    assert [line["event"] for line in lines] == ["train", "validation"] * 3
    for line in lines:
        terms = [values for name, values in line["terms"].items() if name != "discriminator"]
        np.testing.assert_allclose(line["loss"], np.sum(terms, axis=0))
        assert len(line["loss"]) == 2
    # Again it finds that there is nothing left to do.
    before = heads(meat)
    again = command(folder, meat, "--oracle", "--seeds", "2", "--epochs", "3")
    assert "using the cached embeddings of" in printed(main, again)
    assert heads(meat) == before
    assert log_of(meat) == lines


def test_none_that_is_held_out_is_trained_on(folder, tmp_path):
    # Of French there are half as many pairs: what is held out and validated on are other sentences, in part.
    for code, step in (("de", 1), ("fr", 2)):
        rows = (folder / "bitext" / f"en-{code}.tsv").read_text().splitlines()[::step]
        write_rows(tmp_path, f"bitext/en-{code}.tsv", [row.upper() if step > 1 else row for row in rows])
    pairs = read_bitext(tmp_path / "bitext", (), "--data")
    tested = {english.lower() for code in pairs for english, _ in held_out(pairs[code], 15)[1]}
    assert len(tested) > 15
    split = TextOptions(data=tmp_path / "bitext", held_out=15, validation=0.2).pairs()
    train, valid = ({english.lower() for two in split.values() for english, _ in two[part]} for part in (0, 1))
    assert not tested & (train | valid)
    assert not train & valid
    assert len(split["fr"][1]) >= 3
    # Without a share, the held-out pairs validate, and all others train.
    whole = TextOptions(data=tmp_path / "bitext", held_out=15, validation=0).pairs()
    assert [sorted(two[1]) for two in whole.values()] == [sorted(held_out(pairs[code], 15)[1]) for code in whole]
    assert all(len(two[0]) > len(split[code][0]) + 5 for code, two in whole.items())
    assert len(train) > 30


def test_a_seed_stops_after_its_patience():
    position = TrainingPosition.start(2)
    for epoch, totals in enumerate([[3.0, 3.0], [2.0, 4.0], [1.0, 5.0], [2.0, 1.0], [2.0, 1.0]]):
        position.end_epoch(np.array(totals), patience=2)
        if epoch == 2:
            assert position.active == [True, False]
    # The second had stopped before its lowest.
    assert position.best == [1.0, 3.0]
    assert position.best_epoch == [2, 0]
    assert position.active == [False, False]


def test_a_loss_that_is_not_finite_is_named(folder, tmp_path, refused):
    message = refused(main, command(folder, tmp_path, "--objective", "dream", "--learning-rate", "1e30"))
    assert "the loss term " in message
    assert " at epoch 0, step 1, seed 0; lower --learning-rate (it is 1e+30)" in message
    # Nothing of it was kept.
    assert not list((tmp_path / "checkpoints").glob("[0-9]*"))


def test_refusals(folder, meat, tmp_path, refused):
    for more, message in [
        (["--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["--validation", "1"], "--validation is 1.0; it must be from 0 to below 1"),
        (["--batch", "1"], "--batch is 1; it must be from 2 to the number of training pairs,"),
        (["--batch", "512"], "from 2 to the number of training pairs, 124"),
        (["--languages", "de", "--validation", "0.02"], "1 validation pairs make batches of 1"),
        (["--objective", "dream", "--halves", "--languages", "de", "--validation", "0.03"], "batches of at least 4"),
        (["--held-out", "80"], "80 pairs cannot be held out of 80 distinct ones"),
        (["--held-out", "78", "--batch", "2"], "2 pairs are left to train on and 0 to validate on"),
        (["--layer", "9"], "layer"),
        (["--oracle-weights", "0.5"], "--oracle-weights is (0.5,); it must be left out, or given with --oracle"),
        (["--oracle", "--oracle-weights", "1", "1"], "--oracle-weights is (1.0, 1.0); it must be numbers"),
        (["--oracle", "--oracle-weights", "1", "1.0000001"], "it must be numbers from 0 on, each once in six digits"),
        (["--oracle", "--oracle-weights", "-1"], "--oracle-weights is (-1.0,); it must be numbers from 0 on"),
    ]:
        assert message in refused(main, command(folder, tmp_path / "out", *more))
    with FileLock(tmp_path / "lock"):
        assert f"{tmp_path} is in use by another run; choose another --out" in refused(main, command(folder, tmp_path))
    assert not (tmp_path / "config.json").exists()
    for path in (folder / "bitext").iterdir():
        write_rows(tmp_path, f"bitext/{path.name}", path.read_text().replace("h", "j").splitlines())
    begun = command(folder, meat, "--oracle", "--seeds", "2")
    assert "text was " in refused(main, [*begun, "--data", tmp_path / "bitext"])
    assert "--epochs is 2; it must be at least 3, those of" in refused(main, [*begun, "--epochs", "2"])


def test_the_best_epoch_is_written(folder, tmp_path):
    # So fast that it gets worse; the heads are those of a run that ends where it was best.
    more = ["--learning-rate", "0.05"]
    assert main(command(folder, tmp_path / "long", *more, "--epochs", "6")) == 0
    losses = [line["loss"][0] for line in log_of(tmp_path / "long") if line["event"] == "validation"]
    best = int(np.argmin(losses))
    assert best < 5
    assert main(command(folder, tmp_path / "short", *more, "--epochs", str(best + 1))) == 0
    assert heads(tmp_path / "long") == heads(tmp_path / "short")


def test_rows_of_the_table(tmp_path):
    every = [objective for base in ("dream", "meat", "none") for objective in objectives(base)]
    names = [objective.name for objective in every]
    assert len(names) == len(set(names)) == 21
    assert {"meat + oracle (code)", "oracle (paper)", "oracle alone4"} <= set(names)
    rows = Ablations(layers=(2,), batch=16, out=tmp_path).rows()
    assert [row.losses() for row in rows] == every
    assert len({row.out for row in rows}) == 21
    assert {(row.layer, row.batch, row.seeds) for row in rows} == {(2, 16, 5)}
    assert tmp_path / "layer-2" / "dream-halves-oracle-code-all" in {row.out for row in rows}


@pytest.fixture(scope="module")
def weighted(folder):
    """Two seeds of three weights of ORACLE, in one program."""
    out = folder / "weighted"
    more = ["--oracle", "--oracle-weights", "0", "1", "10", "--seeds", "2", "--epochs", "3"]
    assert main(command(folder, out, *more)) == 0
    return out


def test_weights_are_runs_of_one_program(folder, meat, weighted, tmp_path):
    """Weight 1 is the run without weights, and weight 0 that without ORACLE; each is a run that can be read."""
    assert main(command(folder, tmp_path / "alone", "--seeds", "2", "--epochs", "3")) == 0
    runs = {weight: TrainedRun.load(weighted / f"weight-{weight}") for weight in (0, 1, 10)}
    assert [run.objective for run in runs.values()] == [f"meat + oracle (paper), weight {weight}" for weight in runs]
    check_comparable(list(runs.values()))
    alone, plain = map(TrainedRun.load, (tmp_path / "alone", meat))
    weights = {run.objective: weight for weight, run in runs.items()}
    assert oracle_weights([alone, plain, *runs.values()]) == {plain.objective: 1, **weights}
    for weight, other in ((0, alone), (1, plain)):
        for seed in (0, 1):
            found, expected = runs[weight].heads(seed), other.heads(seed)
            # The meaning head; without ORACLE, other orders of the same sums differ by rounding.
            for first, second in zip(found, expected, strict=True):
                for a, b in zip(first.as_affine(), second.as_affine(), strict=True):
                    np.testing.assert_allclose(a, b, atol=2e-6)
    apart = np.abs(runs[10].heads(0)[1].as_affine()[0] - runs[1].heads(0)[1].as_affine()[0]).max()
    assert apart > 1e-3
