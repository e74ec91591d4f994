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


def align_words(english: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> list[Links]:
    """Returns the links of each sentence pair; every sentence has words."""
    eflomal = import_extra("eflomal", "align", "aligning words")
    with TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("forward", "backward")]
        sides = ([" ".join(words) for words in side] for side in (english, other))
        eflomal.Aligner().align(*sides, links_filename_fwd=files[0], links_filename_rev=files[1])
        forward, backward = (Path(file).read_text(encoding="ascii").splitlines() for file in files)
    lengths = [(len(first), len(second)) for first, second in zip(english, other, strict=True)]
    return [
        grow_diag_final_and(*(parse_links(line, *size) for line in lines))
        for *lines, size in zip(forward, backward, lengths, strict=True)
    ]
