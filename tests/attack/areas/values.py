"""Values that are no embeddings, sentences or options."""

from pathlib import Path
from typing import Any

import numpy as np

import lsar_jax as lj
from tests.attack.areas.outcome import DIM, Broke, Random, refused, tiny, vectors

__all__ = ["arrays", "options", "sentences"]


def arrays(folder: Path, rng: Random) -> None:
    good = rng.standard_normal((6, DIM)).astype(np.float32)
    wide = good.astype(np.float64)
    wide[rng.integers(6), rng.integers(DIM)] = rng.choice([np.nan, np.inf, -np.inf, 1e39, -1e300])
    bads = [
        wide,
        good > 0,
        good.astype(int),
        good + 1j,
        good.astype(object),
        good.astype(str),
        good.tolist(),
        good[0],
        good[:, :0],
        good[None],
        None,
        "abc",
        {1: 2},
    ]
    bad = bads[rng.integers(len(bads))]
    x = vectors(rng)
    transform = lj.transforms.fit_center(x)
    calls = [
        lambda: transform(bad, "de"),
        lambda: lj.transforms.fit_lsar({"de": good, "en": bad}),
        lambda: lj.Moments.from_embeddings(bad),
        lambda: lj.retrieval.nearest(good, bad),
        lambda: lj.retrieval.nearest(bad, good),
        lambda: lj.mining.mine(bad, good, k=1),
        lambda: lj.transforms.fit_identifier({"de": good, "en": bad}),
        lambda: lj.transforms.fit_cbie({"de": good, "en": bad}, components=2),
    ]
    refused(calls[rng.integers(len(calls))])
    raise Broke("an array that holds no embeddings was taken")


def sentences(folder: Path, rng: Random) -> None:
    bads = [
        5,
        None,
        b"a",
        {"a"},
        {"a": 1},
        np.array([["a"]]),
        ["a", 1],
        ["a", None],
        [b"a"],
        ["\udc80"],
        [["a"]],
        2.5,
        object(),
    ]
    refused(lambda: tiny().encode(bads[rng.integers(len(bads))]))
    raise Broke("what is not text was encoded")


_OPTIONS: dict[str, tuple[Any, ...]] = {
    "normalize": ("no", 1, None, [], np.ones(2)),
    "language": (5, {"de"}, b"de", "klingon", ["de", "en"], "auto", "de"),
    "layers": (2, "2", (), (9,), (-1,), (1.5,), (True,), {"a": 1}),
    "max_length": (0, -1, 1.5, "8", 10**9, True, np.nan),
    "token_budget": (0, -1, 1.5, "8", True),
    "prompt": (5, b"a", ["a"], "\udc80", "a b " * 5000),
    "output": ("torch", None, 5),
    "show_progress": ("yes", 1, None),
}


def options(folder: Path, rng: Random) -> None:
    name = list(_OPTIONS)[rng.integers(len(_OPTIONS))]
    values = _OPTIONS[name]
    refused(lambda: tiny().encode(["abc"], **{name: values[rng.integers(len(values))]}))
    raise Broke(f"a wrong {name} was taken")
