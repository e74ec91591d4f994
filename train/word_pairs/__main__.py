r"""Aligns the words of parallel text, for ``python -m train.align``.

    python -m train.word_pairs --data data/sentences --more data/bitext --out results/word-pairs

Sentences are split into words by Moses' rules (Chinese, Japanese and Thai by tools of their own), and aligned by
eflomal in both directions, which are combined by grow-diag-final-and. Links between equal words are dropped, and of
the others one-to-one links are kept, as in Wu and Dredze (EMNLP 2020). Training and validation pairs are aligned
together.

The pairs of each language that are held out (``--held-out``) are excluded, as in ``python -m train.disentangle``, so
that ``python -m eval bitext`` can test on them. The command writes the files that ``train/word_pairs/aligned_files.py``
describes, and ``word-pairs.json`` with the counts.

The paper's aligner is fast_align, whose links differ from eflomal's. To use it, or any other:

    python -m train.word_pairs --data data/sentences --links results/links   # writes results/links/en-xx.words
    cd results/links
    for words in en-*.words; do
        fast_align -i $words -d -o -v > forward; fast_align -i $words -d -o -v -r > backward
        atools -i forward -j backward -c grow-diag-final-and > ${words%.words}.links
    done
    cd -; python -m train.word_pairs --data data/sentences --links results/links --out results/word-pairs
"""

import sys
import time
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import tyro

from lsar_jax import __version__
from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.corpora.parallel_text import Pair
from lsar_jax.encoders.progress import count_meter
from lsar_jax.files import check_absent, new_folder, write_json
from train.run_folder import flat_options
from train.text import TextOptions, TrainingPairs, text_hash
from train.word_pairs.aligned_files import (
    PARTS,
    AlignedPair,
    LinkCounts,
    Words,
    keep,
    read_pairs,
    write_aligned,
    write_words,
)
from train.word_pairs.aligner import align_words
from train.word_pairs.word_splitter import word_splitter

__all__ = ["WordPairs"]


@dataclass(frozen=True)
class WordPairs:
    """Aligns the words of parallel text.

    Attributes:
      text: the text to align.
      links: folder of another aligner: its en-xx.links, a line of links such as 0-0 1-2 for each line of en-xx.words,
        are read in place of eflomal's. Without en-xx.links, only en-xx.words are written there, for the aligner.
      out: folder to write; it must not exist.
    """

    text: tyro.conf.OmitArgPrefixes[TextOptions] = field(
        default_factory=lambda: TextOptions(data=Path("data/sentences"))
    )
    links: Path | None = None
    out: Path = Path("results/word-pairs")

    # What --help shows.
    essential = ("data", "languages", "more", "sample", "held_out", "split_seed", "validation", "links", "out")

    def run(self) -> dict[str, dict[str, LinkCounts]]:
        """Writes the aligned pairs and prints how many links each step kept."""
        check_absent(self.out)
        self.text.check()
        text = self.text.pinned()
        pairs = text.pairs()
        if self.links and (left := [code for code in pairs if not (self.links / f"en-{code}.links").is_file()]):
            self.links.mkdir(parents=True, exist_ok=True)
            for code in left:
                write_words(self.links / f"en-{code}.words", list(chain(*_split(code, pairs[code]))))
            console.print(
                f"wrote en-xx.words of {', '.join(left)} to {self.links}; write the links of their lines to "
                "en-xx.links there, and repeat this command"
            )
            return {}
        tools = ("eflomal", "sacremoses") if self.links is None else ("sacremoses",)
        with new_folder(self.out) as folder:
            counts = self._write(folder, pairs)
            record = {
                "options": flat_options(text, ("languages",)),
                "text": text_hash(pairs),
                "versions": {name: version(name) for name in tools} | {"lsar_jax": __version__},
                "links": str(self.links or "eflomal"),
                "counts": {code: {part: counts[code][part]._asdict() for part in PARTS} for code in counts},
            }
            write_json(folder / "word-pairs.json", record)
        console.print(f"wrote {self.out}")
        return counts

    def _write(self, folder: Path, pairs: TrainingPairs) -> dict[str, dict[str, LinkCounts]]:
        """Aligns and writes the pairs of each language; returns the counts of their links."""
        counts: dict[str, dict[str, LinkCounts]] = {}
        with count_meter(
            True, sum(len(part) for parts in pairs.values() for part in parts), "aligned", "pairs"
        ) as meter:
            for code, parts in pairs.items():
                started, counts[code] = time.perf_counter(), {}
                for part, aligned in zip(PARTS, _aligned(code, parts, self.links), strict=True):
                    linked, counts[code][part] = keep(aligned)
                    if not linked:
                        raise ValueError(f"no links are left in the {part} pairs of {code}; omit {code}, or add text")
                    write_aligned(folder, code, part, linked)
                links = sum(count.one_to_one for count in counts[code].values())
                seconds = time.perf_counter() - started
                console.print(f"{code}: {links:,} links between {sum(map(len, parts)):,} pairs in {seconds:.1f} s")
                meter(sum(map(len, parts)))
        return counts


def _split(code: str, parts: tuple[list[Pair], list[Pair]]) -> tuple[list[Words], list[Words]]:
    """Returns the words of the pairs of both parts, without those that have a side without words."""
    english, other = word_splitter("en"), word_splitter(code)
    split = [[(tuple(english(s)), tuple(other(t))) for s, t in pairs] for pairs in parts]
    train, validation = ([pair for pair in pairs if all(pair)] for pairs in split)
    return train, validation


def _aligned(code: str, parts: tuple[list[Pair], list[Pair]], folder: Path | None) -> list[list[AlignedPair]]:
    """Returns the aligned pairs of both parts, which are aligned together, or were by another aligner."""
    train, validation = _split(code, parts)
    pairs = train + validation
    if folder is None:
        links = align_words([s for s, _ in pairs], [t for _, t in pairs])
        aligned = [AlignedPair(*pair, linked) for pair, linked in zip(pairs, links, strict=True)]
    else:
        words = folder / f"en-{code}.words"
        aligned = list(read_pairs(words, words.with_suffix(".links")))
        if [pair[:2] for pair in aligned] != pairs:
            raise ValueError(f"{words} is not the text of {code} with these options; remove it and its links")
    return [aligned[: len(train)], aligned[len(train) :]]


# Runs the command with these arguments; returns its exit status.
main = partial(run, WordPairs, "python -m train.word_pairs", description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
