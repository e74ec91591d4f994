"""Files that the library writes: every change of their bytes must be noticed."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import lsar_jax as lj
from eval.resampling import Queries
from eval.results import Result, read_results, write_results
from lsar_jax.cli.embed import embed_pairs
from tests.attack.areas.outcome import SPEC, Broke, Random, refused, tiny, vectors
from tests.attack.damage import damage
from train.checkpoints import Checkpoints
from train.disentangle.finished import PARTS, TrainedRun
from train.run_folder import claim

__all__ = ["caches", "moments", "results", "runs", "training_checkpoints", "transforms"]


def _of_ours(path: Path, read: Callable[[], Any], rng: Random) -> None:
    if damage(path, rng):
        refused(read)
        raise Broke(f"{path.name} was read although its bytes had changed")
    read()


def transforms(folder: Path, rng: Random) -> None:
    x = vectors(rng)
    fits = (lj.transforms.fit_lsar, lj.transforms.fit_center, lj.transforms.fit_lir, lj.transforms.fit_whitening)
    transform = fits[rng.integers(len(fits))](x, source=SPEC)
    if transform.languages and rng.random() < 0.5:
        transform = transform.with_identifier(lj.transforms.fit_identifier(x, source=SPEC))
    path = folder / "t"
    transform.save(path)
    _of_ours(path, lambda: lj.Transform.load(path), rng)


def moments(folder: Path, rng: Random) -> None:
    x = {code: lj.Moments.from_embeddings(rows, second_moment=True) for code, rows in vectors(rng).items()}
    path = folder / "m"
    lj.save_moments(path, lj.pool_moments(x) if rng.random() < 0.5 else x, source=SPEC)
    _of_ours(path, lambda: lj.load_moments(path), rng)


def results(folder: Path, rng: Random) -> None:
    path = folder / "results.jsonl"
    result = Result(
        "tatoeba", ("de",), "e", "1", 8, "mean", "float32", 128, "lsar", {"rank": 3}, "udhr", "en-xx accuracy", 50.0,
        9, None, 0.1,
    ).resampled(Queries(rng.random(9)))  # fmt: skip
    write_results([result, result], path)
    if rng.random() < 0.5:
        # Of a zip file, dates and other bytes that are not the arrays may change.
        if damage(path.with_name("queries.npz"), rng):
            found = refused(lambda: read_results(path))
            if any(one.queries is None or (one.queries.values != result.queries.values).any() for one in found):
                raise Broke("other scores were read")
    else:
        _of_ours(path, lambda: read_results(path), rng)


def training_checkpoints(folder: Path, rng: Random) -> None:
    arrays = {"weights": jnp.asarray(rng.standard_normal(500), jnp.float32)}
    with Checkpoints(folder / "c") as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, {"weights": arrays["weights"] + step}, {"step": step})
    files = [path for path in (folder / "c" / "2").rglob("*") if path.is_file() and path.stat().st_size]
    changed = damage(files[rng.integers(len(files))], rng)
    with Checkpoints(folder / "c") as checkpoints:
        found, position = refused(lambda: checkpoints.restore(arrays))
    if position["step"] != (1 if changed else 2) or not np.array_equal(
        found["weights"], arrays["weights"] + position["step"]
    ):
        raise Broke(f"the checkpoint of step {position['step']} was taken")


def caches(folder: Path, rng: Random) -> None:
    pairs = {"de": [(" ".join(rng.choice(list("abcdefgh"), 4)), "a b") for _ in range(5)]}
    with contextlib.redirect_stdout(io.StringIO()):
        x, _ = embed_pairs(tiny(), pairs, 24, folder / "cache")
        [path] = (folder / "cache").iterdir()
        changed = damage(path, rng)
        again = refused(lambda: embed_pairs(tiny(), pairs, 24, folder / "cache")[0])
    if changed or not np.array_equal(x, again):
        raise Broke("a cache was read although its bytes had changed")


def runs(folder: Path, rng: Random) -> None:
    """Values of the two records of a training replaced, or their text."""
    config = {
        "encoder_spec": SPEC.to_dict(), "pairs": {"de": [3, 1]}, "split": "", "learning_rate": 1e-4, "batch": 8,
        "patience": 3, "max_length": 24, "held_out": 15, "split_seed": 0, "validation": 0.1, "text": "sha256:0",
        "lsar_jax": lj.__version__,
    }  # fmt: skip
    seeds = [{"seed": 0, "best_epoch": 1, "stopped_by": "epochs"}]
    told = {"objective": "meat", "epochs": 2, "seeds": seeds}
    (folder / "seed-0").mkdir()
    for part in PARTS:
        lj.transforms.zero_dimensions([0], 4).save(folder / "seed-0" / f"{part}.safetensors")
    names = {"config.json": config, "trained.json": told}
    for name, record in names.items():
        (folder / name).write_text(json.dumps(record))
    name = list(names)[rng.integers(2)]
    record = names[name]
    if rng.random() < 0.3:
        (folder / name).write_text(str(rng.choice(["", "[]", "{", "{}", "null", "3", '"a"', "[" * 5000])))
    else:
        key = list(record)[rng.integers(len(record))]
        junk = [None, [], {}, 3, "a", [[1]], {"a": 1}, [{"seed": 0}], True, -1, 1e300]
        (folder / name).write_text(json.dumps(record | {key: junk[rng.integers(len(junk))]}))
    run = refused(lambda: TrainedRun.load(folder))
    refused(lambda: (run.layer, run.training, run.objective, [run.heads(seed) for seed in run.seeds]))
    refused(lambda: claim(folder, config | {"batch": 9}))
    raise Broke("the folder of a run of other options was claimed")
