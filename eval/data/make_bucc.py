"""Creates files in BUCC's format from any parallel text: both sides of some pairs, and one side of all others.

    python -m eval make-bucc --data data/bitext --to data/bucc-made

Each split hides its gold pairs among distractors: sentences whose translation is absent. No sentence occurs twice or
in both splits, and no two sentences differ only in case, digits or punctuation.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from lsar_jax.checks import above_zero, below_one
from lsar_jax.console.output import console
from lsar_jax.corpora.parallel_text import distinct, read_bitext
from lsar_jax.corpora.tables import Data
from lsar_jax.files import check_outputs, write_text

__all__ = ["MakeBucc"]

# Share of the pairs that are in the sample split rather than the training split.
_SAMPLE = 0.3


@dataclass(frozen=True)
class MakeBucc:
    """Creates BUCC-style files from parallel text.

    Attributes:
      data: folder of en-xx.tsv files with the fields domain, English, xx.
      to: folder to create.
      languages: language codes.
      gold: share of the pairs that are gold pairs; of the others, each side has one half.
      overwrite: replace files that exist.
    """

    data: Data = Path("data/bitext")
    to: Path = Path("data/bucc-made")
    languages: tuple[str, ...] = ("de", "fr", "ru", "zh")
    gold: float = 0.1
    overwrite: bool = False

    def run(self) -> None:
        """Writes the files, and prints the number of sentences and gold pairs in each split."""
        above_zero(gold=self.gold)
        below_one(gold=self.gold)
        texts = {code: distinct(pairs) for code, pairs in read_bitext(self.data, self.languages, "--data").items()}
        for code, pairs in texts.items():
            if _SAMPLE * self.gold * len(pairs) < 1:
                raise ValueError(f"{self.data} has only {len(pairs)} distinct pairs for {code}; omit the language")
        self.to.mkdir(parents=True, exist_ok=True)
        parts = product(texts, ("sample", "training"))
        names = [f"{code}-en.{split}.{side}" for code, split in parts for side in ("en", code, "gold")]
        check_outputs([self.to / name for name in names], overwrite=self.overwrite)
        for code, pairs in texts.items():
            # Seeded by the language, so that its files do not depend on the other languages.
            rng = np.random.default_rng([0, *code.encode()])
            order = rng.permutation(len(pairs))
            cut = int(_SAMPLE * len(pairs))
            for split, part in (("sample", order[:cut]), ("training", order[cut:])):
                counts = self._write(code, split, [pairs[i] for i in part], rng)
                console.print(f"{code}-en.{split}: {counts[0]} and {counts[1]} sentences, {counts[2]} gold pairs")

    def _write(
        self, code: str, split: str, pairs: list[tuple[str, str]], rng: np.random.Generator
    ) -> tuple[int, int, int]:
        whole = max(1, int(self.gold * len(pairs)))
        # Of the remaining pairs, one half contributes the English side, the other half the other side.
        half = whole + (len(pairs) - whole) // 2
        english = [(i, pairs[i][0]) for i in range(half)]
        other = [(i, pairs[i][1]) for i in [*range(whole), *range(half, len(pairs))]]
        names: dict[str, dict[int, str]] = {}
        for side, sentences in (("en", english), (code, other)):
            shuffled = [sentences[i] for i in rng.permutation(len(sentences))]
            names[side] = {i: f"{side}-{number:09d}" for number, (i, _) in enumerate(shuffled, 1)}
            lines = [f"{names[side][i]}\t{text}\n" for i, text in shuffled]
            write_text(self.to / f"{code}-en.{split}.{side}", "".join(lines))
        gold = [f"{names[code][i]}\t{names['en'][i]}\n" for i in range(whole)]
        write_text(self.to / f"{code}-en.{split}.gold", "".join(gold))
        return len(other), len(english), whole
