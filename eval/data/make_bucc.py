"""Makes files in BUCC's form from any parallel text: some pairs stay whole, of the others one side each.

    python -m eval make-bucc --data data/bitext --to data/bucc-made

Each split hides its gold pairs among distractors, sentences whose translation is not there. No sentence is in
both splits, none comes twice, and none that differs from another only in case, spaces or digits.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lsar_jax.corpora.parallel_text import distinct, read_bitext
from lsar_jax.corpora.tables import Data
from train.console import console

__all__ = ["MakeBucc"]


@dataclass(frozen=True)
class MakeBucc:
    """Files in BUCC's form from parallel text.

    Attributes:
      data: the folder of en-xx.tsv files: domain, English, other.
      to: the folder to make.
      languages: codes.
      gold: the share of the pairs that stay whole.
      sample: the share of the pairs that go to the sample split; the others go to training.
      seed: of the shuffle.
    """

    data: Data = Path("data/bitext")
    to: Path = Path("data/bucc-made")
    languages: tuple[str, ...] = ("de", "fr", "ru", "zh")
    gold: float = 0.1
    sample: float = 0.3
    seed: int = 0

    def run(self) -> None:
        """Writes the files and prints how many sentences and gold pairs each split has."""
        for option in ("gold", "sample"):
            if not 0 < getattr(self, option) < 1:
                raise ValueError(f"--{option} is {getattr(self, option)}; it must be between 0 and 1")
        texts = {code: distinct(pairs) for code, pairs in read_bitext(self.data, self.languages, "--data").items()}
        for code, pairs in texts.items():
            if min(self.sample, 1 - self.sample) * self.gold * len(pairs) < 1 or len(pairs) < 10:
                raise ValueError(
                    f"{self.data}: {len(pairs)} distinct pairs of {code} leave a split without a gold pair"
                )
        self.to.mkdir(parents=True, exist_ok=True)
        for code, pairs in texts.items():
            # Of its own seed, so that a language's files do not depend on the others asked for.
            rng = np.random.default_rng([self.seed, *code.encode()])
            order = rng.permutation(len(pairs))
            cut = int(self.sample * len(pairs))
            for split, part in (("sample", order[:cut]), ("training", order[cut:])):
                counts = self._write(code, split, [pairs[i] for i in part], rng)
                console.print(f"{code}-en.{split}: {counts[0]} and {counts[1]} sentences, {counts[2]} gold pairs")

    def _write(
        self, code: str, split: str, pairs: list[tuple[str, str]], rng: np.random.Generator
    ) -> tuple[int, int, int]:
        whole = max(1, int(self.gold * len(pairs)))
        # Of what is left one half gives its English side, the other half its other side.
        half = whole + (len(pairs) - whole) // 2
        english = [(i, pairs[i][0]) for i in range(half)]
        other = [(i, pairs[i][1]) for i in [*range(whole), *range(half, len(pairs))]]
        names: dict[str, dict[int, str]] = {}
        for side, sentences in (("en", english), (code, other)):
            shuffled = [sentences[i] for i in rng.permutation(len(sentences))]
            names[side] = {i: f"{side}-{number:09d}" for number, (i, _) in enumerate(shuffled, 1)}
            lines = [f"{names[side][i]}\t{text}\n" for i, text in shuffled]
            (self.to / f"{code}-en.{split}.{side}").write_text("".join(lines), encoding="utf-8")
        gold = [f"{names[code][i]}\t{names['en'][i]}\n" for i in range(whole)]
        (self.to / f"{code}-en.{split}.gold").write_text("".join(gold), encoding="utf-8")
        return len(other), len(english), whole
