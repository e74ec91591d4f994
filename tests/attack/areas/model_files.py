"""Files of an encoder, which have no digests: a change is refused, or is another revision."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import lsar_jax as lj
from tests.attack.areas.outcome import Broke, Random, at_most, refused, tiny
from tests.attack.damage import damage
from tests.conftest import TINY

__all__ = ["checkpoints", "configs", "no_files", "token_ids"]


def _of_others(folder: Path) -> None:
    encoder = refused(lambda: lj.load_encoder(str(folder)))
    if encoder.spec.revision == tiny().spec.revision:
        raise Broke("a changed checkpoint has the old revision")
    x = refused(lambda: encoder.encode(["abc", "de f", ""]))
    if not np.isfinite(x).all():
        raise Broke("an embedding is not finite")


def checkpoints(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    names = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
    if damage(new / names[rng.integers(len(names))], rng):
        _of_others(new)


_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 7.5, 1e308, 10**12, float("nan"), "", "x", "../../etc/passwd", "a" * 5000, [], [1], {},
    {"a": 1},
)  # fmt: skip


def configs(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    path = new / str(rng.choice(["config.json", "tokenizer.json", "tokenizer_config.json"]))
    settings = json.loads(path.read_text())
    where: Any = settings
    while True:  # a random place in the tree
        keys = list(where) if isinstance(where, dict) else list(range(len(where)))
        key = keys[rng.integers(len(keys))] if keys else "new"
        if (
            isinstance(where, dict | list)
            and isinstance(where[key] if keys else None, dict | list)
            and rng.random() < 0.7
            and where[key]
        ):
            where = where[key]
            continue
        break
    if rng.random() < 0.2 and keys:
        del where[key]
    else:
        where[key] = _VALUES[rng.integers(len(_VALUES))]
    before = path.read_bytes()
    path.write_text(json.dumps(settings))
    if path.read_bytes() != before:
        _of_others(new)


def token_ids(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    path = new / "tokenizer.json"
    settings = json.loads(path.read_text())
    row = int(rng.choice([64, 65, 100, 9000, 2**31 - 1]))
    vocabulary = settings["model"]["vocab"]
    if rng.random() < 0.5:
        vocabulary[str(rng.choice(list(vocabulary)))] = row
    else:
        specials = list(settings["post_processor"]["special_tokens"].values())
        specials[rng.integers(len(specials))]["ids"] = [row]
    path.write_text(json.dumps(settings))
    refused(lambda: lj.load_encoder(str(new)))
    raise Broke(f"the id {row} was taken, but the model embeds 0 to 63")


def no_files(folder: Path, rng: Random) -> None:
    new = shutil.copytree(TINY, folder / "e")
    names = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "vocab.txt")
    path = new / names[rng.integers(len(names))]
    path.unlink(missing_ok=True)
    (os.mkfifo, os.mkdir, lambda place: place.symlink_to(place))[rng.integers(3)](path)
    with at_most(20):
        refused(lambda: lj.load_encoder(str(new)))
    raise Broke(f"{path.name}, which is not a file, was taken")
