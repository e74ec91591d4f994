"""Aligns the words of parallel sentences with eflomal.

Östling and Tiedemann, "Efficient Word Alignment with Markov Chain Monte Carlo", The Prague Bulletin of Mathematical
Linguistics 106, 2016. Both directions are sampled, and combined by grow-diag-final-and. eflomal takes its seed from the
system, so that two runs differ in some links; keep the files that it wrote.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lsar_jax.extras import import_extra
from train.word_pairs.links import Links, grow_diag_final_and, parse_links

__all__ = ["align_words"]


def align_words(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> list[Links]:
    """Returns the links of each sentence pair.

    Args:
      source: words of the source sentences; at least one in each.
      target: words of their translations; at least one in each.

    Raises:
      ImportError: the ``align`` extra is not installed.
      ValueError: the numbers of sentences differ, or a sentence has no words.
    """
    if len(source) != len(target):
        raise ValueError(f"there are {len(source)} source sentences and {len(target)} target sentences")
    for number, words in enumerate(zip(source, target, strict=True)):
        if not all(words):
            raise ValueError(f"a side of sentence pair {number} has no words; leave the pair out")
    if not source:
        return []
    eflomal = import_extra("eflomal", "align", "aligning words")
    with TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("forward", "backward")]
        sides = ([" ".join(words) for words in side] for side in (source, target))
        eflomal.Aligner().align(*sides, links_filename_fwd=files[0], links_filename_rev=files[1])
        forward, backward = (Path(file).read_text(encoding="ascii").splitlines() for file in files)
    lengths = [(len(words), len(others)) for words, others in zip(source, target, strict=True)]
    return [
        grow_diag_final_and(*(parse_links(line, *size) for line in lines))
        for *lines, size in zip(forward, backward, lengths, strict=True)
    ]
