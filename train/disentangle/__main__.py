r"""Trains a meaning head and a language head on frozen embeddings of parallel text, with DREAM, MEAT or ORACLE.

    python -m train.disentangle --objective meat --oracle --layer 8 \
        --learning-rate 1e-4 --patience 30 --out results/meat-oracle
    python -m eval leakage results/meat-oracle

Embeddings are computed once and cached. To resume a killed run, repeat the same command. The pairs of each language
that are held out (``--held-out``) are excluded from training, so that ``python -m eval bitext`` and ``python -m eval
leakage`` can test on them. A share of the other pairs is used for validation, which chooses the best epoch.

The command writes ``config.json``, ``log.jsonl``, ``checkpoints/``, ``curves.png``, ``trained.json``, which says how
each seed ended, and two transforms for each seed, ``seed-0/meaning.safetensors`` and ``seed-0/language.safetensors``.
With several ``--oracle-weights``, which are trained in parallel too, each writes to a folder of its own, such as
``weight-0.5/``, and ``python -m eval leakage OUT/weight-*`` draws the front of meaning against leakage.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from lsar_jax import SentenceEncoder, Transform
from lsar_jax.checks import above_zero, at_least, check_option, check_seeds
from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.embeddings.cache import embed_pairs
from lsar_jax.files import write_json
from lsar_jax.mesh import data_mesh
from lsar_jax.objectives.disentangle import Head, Objective
from lsar_jax.objectives.objective import Base
from lsar_jax.objectives.oracle import ClusterPairs, Separation
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.transforms import head_transform
from train.disentangle.finished import PARTS
from train.disentangle.steps import PairTable
from train.disentangle.training import HeadTraining, validation_batch
from train.loop import LoopOptions, Trained, train
from train.run_folder import claimed, flat_options
from train.text import TextOptions, TrainingPairs, text_hash

__all__ = ["Disentangle", "HeadsOptions"]

# Steps of one program, and per line of the log.
_STEPS_PER_CALL = 100
# Options that may change when a run resumes.
_FREE = ("out", "cache", "checkpoint_seconds", "epochs")


@dataclass(frozen=True)
class HeadsOptions:
    """Options shared by a single run and a table of runs.

    Attributes:
      text: the text to train on.
      encoder: the encoder of the embeddings.
      learning_rate: learning rate of Adam.
      batch: number of pairs per step.
      loop: how long to train.
      seed: first random seed; a seed determines the initial weights, the order of batches and the sampling.
      seeds: number of seeds, trained in parallel in one program.
      cache: folder for cached embeddings.
    """

    text: tyro.conf.OmitArgPrefixes[TextOptions] = field(default_factory=TextOptions)
    encoder: tyro.conf.OmitArgPrefixes[EncoderOptions] = field(default_factory=EncoderOptions)
    learning_rate: float = 1e-5
    batch: int = 512
    loop: tyro.conf.OmitArgPrefixes[LoopOptions] = field(default_factory=LoopOptions)
    seed: int = 0
    seeds: int = 1
    cache: Path = Path("results/embeddings")


@dataclass(frozen=True)
class Disentangle(HeadsOptions):
    """Trains a meaning head and a language head.

    Attributes:
      objective: dream, meat, or none to use ORACLE alone.
      oracle: add ORACLE's clustering and separation losses.
      separation: what ORACLE separates: with paper, meaning embeddings from language embeddings (Eq. 6); with code, the
        language embedding of an English sentence from that of its translation; with alone, both, as in the stand-alone
        objectives of its code, and a term named agreement is added, which pulls the meanings of translations together.
      clustering: pairs of sentences in a batch that ORACLE pulls together: off_diagonal for all pairs except a sentence
        with itself, all for all pairs, or same_language for pairs with the same target language.
      without: names of loss terms to omit, for ablations.
      halves: let DREAM compare the two halves of a batch, as in ORACLE's code, instead of each pair with another in
        the same language.
      oracle_weights: weights of ORACLE's losses; several are trained in parallel in one program, each for all seeds.
      layer: hidden-state layer to train on; by default, the layer that the checkpoint outputs.
      out: output folder of this run.
    """

    objective: Base = "meat"
    oracle: bool = False
    separation: Separation = "paper"
    clustering: ClusterPairs = "off_diagonal"
    without: tuple[str, ...] = ()
    halves: bool = False
    oracle_weights: tuple[float, ...] = (1.0,)
    layer: int | None = None
    out: Path = Path("results/disentangle")

    # What --help shows.
    essential = (
        "objective", "oracle", "data", "held_out", "encoder", "layer", "learning_rate", "patience", "seeds", "out"
    )  # fmt: skip

    def losses(self) -> Objective:
        """Returns the losses; raises ValueError if they do not go together."""
        return Objective(self.objective, self.oracle, self.separation, self.clustering, self.without, self.halves)

    def run(self) -> Trained:
        """Encodes the text, trains the heads, and writes the heads, the log and its figure."""
        at_least(1, seeds=self.seeds, epochs=self.loop.epochs, patience=self.loop.patience)
        check_seeds((self.seed, self.seed + self.seeds - 1))
        above_zero(learning_rate=self.learning_rate)
        self.text.check()
        objective, weights = self.losses(), self.oracle_weights
        # Folders have six digits of a weight.
        right = 0 < len(weights) == len({f"{weight:g}" for weight in weights if 0 <= weight < np.inf})
        check_option(right, "numbers from 0 on, each once in six digits", oracle_weights=weights)
        check_option(self.oracle or weights == (1.0,), "left out, or given with --oracle", oracle_weights=weights)
        run = replace(self, text=self.text.pinned())
        pairs = run.text.pairs()
        encoder = self.encoder.open(self.layer)
        counts = {code: (len(train), len(validation)) for code, (train, validation) in pairs.items()}
        train_count, validation_count = map(sum, zip(*counts.values(), strict=True))
        validation_batch(objective, self.batch, train_count, validation_count, data_mesh())
        options = flat_options(run, _FREE) | {
            "encoder_spec": encoder.spec.to_dict(),
            "pairs": {code: list(count) for code, count in counts.items()},
            "text": text_hash(pairs),
        }
        with claimed(self.out, self.encoder.encoder, options, ("weight-*/*", "weight-*/seed-*/*.safetensors")):
            return self._train(objective, encoder, pairs, options)

    def _train(
        self, objective: Objective, encoder: SentenceEncoder, pairs: TrainingPairs, options: Mapping[str, Any]
    ) -> Trained:
        sentences = {code: train + validation for code, (train, validation) in pairs.items()}
        table, rows = embed_pairs(encoder, sentences, self.encoder.max_length, self.cache)
        on_device, counts = jax.device_put(table), {code: len(train) for code, (train, _) in pairs.items()}
        training = PairTable.of(on_device, [(s[: counts[code]], t[: counts[code]]) for code, (s, t) in rows.items()])
        validation = PairTable.of(on_device, [(s[counts[code] :], t[counts[code] :]) for code, (s, t) in rows.items()])
        console.print(
            f"{objective.name}: {len(training.source)} training pairs and {len(validation.source)} validation pairs "
            f"of English and {', '.join(pairs)}; loss terms: {', '.join(objective.terms)}"
        )
        seeds = tuple(range(self.seed, self.seed + self.seeds))
        task = HeadTraining(objective, self.learning_rate, self.batch, seeds, training, validation, self.oracle_weights)
        title = f"{objective.name}, {encoder.spec.id}, layer {encoder.spec.layer}"
        trained = train(task, self.loop, self.out, title, _STEPS_PER_CALL)
        fitted = {code: len(set(map(int, side))) for code, (_, side) in rows.items()}
        fitted["en"] = len({int(row) for english, _ in rows.values() for row in english})
        for number, weight in enumerate(self.oracle_weights):
            folder, name = self.out, objective.name
            if self.oracle_weights != (1.0,):
                name += f", weight {weight:g}"
            if len(self.oracle_weights) > 1:
                (folder := self.out / f"weight-{weight:g}").mkdir(exist_ok=True)
                write_json(folder / "config.json", {**options, "oracle_weights": [weight]})
                console.print(f"weight {weight:g}:")
            head = partial(
                head_transform, objective=name, fitted_on=fitted, source=encoder.spec, learning_rate=self.learning_rate,
                batch=self.batch,
            )  # fmt: skip
            self._write(trained, number * self.seeds, folder, head, name)
        speed = f"; {trained.steps_per_second:.0f} steps/s including validation" if trained.steps_per_second else ""
        console.print(f"{trained.position.taken} steps{speed}; wrote {self.out}")
        return trained

    def _write(
        self, trained: Trained, first: int, folder: Path, head: Callable[..., Transform], objective: str
    ) -> None:
        """Writes the heads of all seeds of one weight, the first of which has this number among all runs."""
        position, best, ends = trained.position, jax.device_get(trained.best), []
        for number, seed in enumerate(range(self.seed, self.seed + self.seeds), first):
            place = folder / f"seed-{seed}"
            place.mkdir(parents=True, exist_ok=True)
            for part in PARTS:
                arrays = Head(*(array[number] for array in getattr(best, part)))
                head(arrays, part, seed=seed).save(place / f"{part}.safetensors")
            end = {
                "seed": seed,
                "validation": position.best[number],
                "best_epoch": position.best_epoch[number],
                "stopped_by": "epochs" if position.active[number] else "patience",
            }
            ends.append(end)
            console.print(
                f"seed {seed}: validation {position.best[number]:.4f} at epoch {end['best_epoch']}, stopped by "
                f"--{end['stopped_by']}"
            )
        record = {"objective": objective, "epochs": position.epoch, "steps": position.taken, "seeds": ends}
        write_json(folder / "trained.json", record)


# Runs the command with these arguments; returns its exit status.
main = partial(run, Disentangle, "python -m train.disentangle", description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
