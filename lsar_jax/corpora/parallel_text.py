"""Parallel text from ``en-xx.tsv`` tables (English, xx, perhaps a domain), Moses files or prepared datasets."""

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

from lsar_jax.arrays import log
from lsar_jax.corpora.builders import Parallel
from lsar_jax.corpora.by_language import chosen
from lsar_jax.corpora.tables import Data, named_pairs, named_tables
from lsar_jax.corpora.text_rules import text_key

__all__ = ["Pair", "distinct", "held_out", "read_bitext", "shuffled"]

Pair = tuple[str, str]


def read_bitext(
    data: Data, languages: Sequence[str], option: str, split: str = "", sample: int | None = None, seed: int = 0,
    columns: Sequence[str] = (),
) -> dict[str, list[Pair]]:  # fmt: skip
    """Returns sentence pairs of English and each language.

    Rows with an empty side are left out, and their number is logged.

    Args:
      data: a folder of tables or Moses files, a folder that ``prepare`` wrote, ``hub:ID`` or ``tfds:NAME``.
      languages: codes of the languages to read; by default, all available.
      option: command-line option that names the folder, used in error messages.
      split: split of a ``hub:`` or ``tfds:`` dataset; by default, its only split, or else ``test``.
      sample: number of pairs of each language to draw at random, on which alone the memory depends; by default, all.
      seed: seed of the sample, which does not depend on the order of the pairs.
      columns: the names of the columns of tables, as for ``table_pairs``.

    Raises:
      FileNotFoundError: a language has no file.
      ValueError: a line has too few or too many fields, files differ in length, or a folder has no ``split``; errors
        name the file and line.
    """
    tables = named_tables(data)
    if tables is None and split:
        raise ValueError(f"--split {split} applies only to hub:ID and tfds:NAME, but {data} is a folder; omit --split")
    found = _files(Path(data), languages, option, columns) if tables is None else named_pairs(tables, languages, split)
    skipped = 0

    def filled(pairs: Iterable[Pair]) -> Iterator[Pair]:
        nonlocal skipped
        for english, other in pairs:
            if all(pair := (english.strip(), other.strip())):
                yield pair
            else:
                skipped += 1

    draw = list if sample is None else partial(shuffled, seed=seed, most=sample)
    result = {code: draw(filled(pairs)) for code, pairs in found.items()}
    if skipped:
        log.warning("left out %d rows of %s with an empty side", skipped, data)
    return result


def _files(folder: Path, languages: Sequence[str], option: str, columns: Sequence[str]) -> dict[str, Iterator[Pair]]:
    try:
        pairs = Parallel.known(folder)
    except FileNotFoundError:
        pairs = ()
    # English may come first or second.
    places = {pair.removeprefix("en-").removesuffix("-en"): pair for pair in pairs if f"-{pair}-".count("-en-")}
    advice = (
        ". Put tables of tab-separated domain, English and xx there (for example the messages of Debian's gimp-data, "
        "inkscape and gnucash-common), or Moses files (NAME.en-xx.en and NAME.en-xx.xx), or name another folder with "
    )
    result: dict[str, Iterator[Pair]] = {}
    for code, pair in chosen(places, languages or None, folder, "en-{}.tsv", advice + option).items():
        sides = ("source", "target") if pair.startswith("en-") else ("target", "source")
        result[code] = map(itemgetter(*sides), Parallel.stream(folder, pair, "train", columns=columns))
    return result


def distinct(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs without those that repeat a side of an earlier one, ignoring case, digits and punctuation.

    Pairs with a side that has no letters are also left out.
    """
    # A side without letters has an empty key.
    firsts, seconds = {""}, {""}
    different = []
    for pair in pairs:
        first, second = map(text_key, pair)
        if first not in firsts and second not in seconds:
            firsts.add(first)
            seconds.add(second)
            different.append(pair)
    return different


def held_out(pairs: Sequence[Pair], count: int | float, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Splits the distinct pairs into pairs to train on and ``count`` held-out pairs; below 1, ``count`` is a share.

    Pairs are chosen by a hash of the seed and the English sentence, so that a sentence held out for one language
    is mostly held out for the others too.

    Raises:
      ValueError: ``count`` selects none or all of the distinct pairs, or is above 1 and not whole.
    """
    order = shuffled(distinct(pairs), seed)
    number = round(count * len(order)) if 0 < count < 1 else int(count)
    if not 0 < number < len(order) or (count > 1 and number != count):
        raise ValueError(f"{count} pairs cannot be held out of {len(order)} distinct ones; hold out some, not all")
    return order[number:], order[:number]


def shuffled(pairs: Iterable[Pair], seed: int = 0, most: int | None = None) -> list[Pair]:
    """Returns the pairs, or the first ``most``, in an order that depends only on the seed and their English sentences.

    No more than ``most`` pairs are in memory at a time.

    Example:
      >>> from lsar_jax.corpora.parallel_text import shuffled
      >>> pairs = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
      >>> shuffled(pairs, most=2) == shuffled(reversed(pairs))[:2]
      True
    """

    def order(pair: Pair) -> bytes:
        return hashlib.sha256(f"{seed}\t{pair[0]}".encode()).digest()

    return sorted(pairs, key=order) if most is None else heapq.nsmallest(most, pairs, key=order)
