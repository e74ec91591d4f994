r"""The number of examples in each part of a task's text, as in Table 2 of Wu and Dredze (EMNLP 2020).

python -m eval examples --task pos --train en_ewt-ud-train.conllu --dev en_ewt-ud-dev.conllu \
        --test de_gsd-ud-test.conllu fr_gsd-ud-test.conllu
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lsar_jax.console.output import print_table
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.results import Result, write_results
from lsar_jax.measures.run_record import recorded
from train.finetune.tasks import TASKS
from train.finetune.text import english, labelled_tests

__all__ = ["ExampleCounts"]


@dataclass(frozen=True)
class ExampleCounts:
    """Counts the examples in each part of a task's text.

    Attributes:
      task: xnli, ner, pos or parsing.
      train: English text to train on: a file, hub:ID#CONFIG or tfds:NAME#CONFIG.
      dev: English text that chooses the best step.
      test: text to test on; the language is part of a file's or a configuration's name.
      out: folder of the results.
      overwrite: replace results that are from other options.
    """

    task: Literal["xnli", "ner", "pos", "parsing"]
    train: Data
    dev: Data
    test: tuple[Data, ...]
    out: Path = Path("results/examples")
    overwrite: bool = False

    def run(self) -> list[Result]:
        """Prints the counts, and writes ``results.jsonl``."""
        with recorded(self):
            task = TASKS[self.task]
            parts = {"train": self.train, "dev": self.dev}
            counts = {f"en-{part}": len(english(task, data, part)) for part, data in parts.items()}
            for code, sentences in labelled_tests(task, self.test).values():
                counts[f"{code}-test"] = counts.get(f"{code}-test", 0) + len(sentences)
            print_table("Number of examples", ["", self.task], [[part, f"{n:,}"] for part, n in counts.items()])
            results = [
                Result(
                    task=f"transfer-{self.task}", languages=(part.partition("-")[0],), encoder="", revision="", layer=0,
                    pooling="", dtype="", max_length=0, transform="", parameters={}, fitted_on="",
                    metric=f"examples {part}", value=float(count), n=count, seed=None, seconds=0.0,
                )
                for part, count in counts.items()
            ]  # fmt: skip
            write_results(results, self.out / "results.jsonl")
            return results
