"""All that processes compute together: ``python -m tests.shared_work [--distributed=...] FOLDER OUT``."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

import lsar_jax as lj
from lsar_jax.console.run import run
from lsar_jax.processes import is_first, own_rows, share
from tests.train.runs import write_labelled, write_words
from train.align.__main__ import main as align
from train.finetune.__main__ import main as finetune

__all__ = ["SharedWork", "strong_arguments", "write_input"]

TINY = str(Path(__file__).parent / "golden" / "bert")
TRAINING = ("--encoder", TINY, "--layer", "1", "--max-length", "24")


def write_input(folder):
    """Writes the vectors and the text that are worked on."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((203, 16)).astype(np.float32) + 1
    x[100] = x[150] = x[2]  # ties over the border of two shares
    np.save(folder / "x.npy", x)
    write_words(folder)
    write_labelled(folder, "pos", "train-en", 64, 0)
    write_labelled(folder, "pos", "test-de", 12, 2)


def strong_arguments(folder, out):
    """The arguments of an alignment."""
    words = [*TRAINING, "--words", folder / "words", "--steps", "6", "--validate-every", "2"]
    return [*words, "--learning-rate", "1e-3", "--batch", "8", "--out", out]


@dataclass(frozen=True)
class SharedWork:
    """Moments, search and training, on what ``write_input`` wrote into ``folder``."""

    folder: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]

    def run(self) -> None:
        folder, out = self.folder, self.out
        out.mkdir(exist_ok=True)
        self._arrays()
        _end(align, *strong_arguments(folder, out / "strong"))
        _end(align, *strong_arguments(folder, out / "chunks"), "--chunk-tokens", "96")
        linear = ["--objective", "linear", "--learning-rate", "1e-4", "--batch", "128"]
        _end(align, *strong_arguments(folder, out / "linear"), *linear)
        files = ["--train", folder / "train-en.txt", "--test", folder / "test-de.txt", "--held-out", "12"]
        steps = ["--epochs", "1", "--batch", "8", "--validations", "2", "--learning-rate", "1e-3"]
        _end(finetune, "--task", "pos", *TRAINING, *files, *steps, "--seeds", "12", "8", "--out", out / "pos")

    def _arrays(self) -> None:
        x = np.load(self.folder / "x.npy")
        own = x[own_rows(len(x))]
        both = lj.moments.sum_over_processes(lj.Moments.from_embeddings(own, second_moment=True))
        # All rows are in one process.
        alone = lj.moments.sum_over_processes(lj.Moments.from_embeddings(x) if is_first() else None)
        found = {"mean": both.mean, "scatter": both.scatter, "alone": alone.mean, "counts": [both.count, alone.count]}
        for metric in ("cosine", "dot"):
            scores, ids = lj.retrieval.nearest_over_processes(x[:20], own, 150, metric=metric)
            found |= {f"{metric} scores": scores, f"{metric} ids": ids}
        mine = x if share()[1] == 1 or not is_first() else x[:0]
        found["last"] = lj.retrieval.nearest_over_processes(x[:20], mine, 3)[1]
        if is_first():
            np.savez(self.out / "arrays.npz", **found)


def _end(command, *arguments):
    if status := command(list(map(str, arguments))):
        raise ValueError(f"{' '.join(map(str, arguments[:2]))} ended with {status}")


if __name__ == "__main__":
    sys.exit(run(SharedWork, "python -m tests.shared_work", shared=True))
