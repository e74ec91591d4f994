"""Tables of pairs of sentences: which of their columns are the two sentences, by their names or by their content."""

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice, product
from pathlib import Path

import regex

from lsar_jax.arrays import log
from lsar_jax.corpora.text_files import stream_lines, tab_fields
from lsar_jax.corpora.udhr import udhr
from lsar_jax.languages import code_or_none, script_of

__all__ = ["COLUMNS", "Languages", "named_pair", "table_pairs"]

# Of the source and the target; None if it is not known.
Languages = Sequence[str | None]


# Rows that are looked at.
_HEAD = 500
# Logarithm of how much likelier text must be in one language than in the other.
_CLEAR = 10
# Half as many as there may be sequences of three letters.
_UNSEEN = 10_000
# Numbers, such as scores, and addresses.
_NO_TEXT = re.compile(r"\s*([-+]?[\d.,]+(e[-+]?\d+)?%?|\w+://\S*)?\s*", re.IGNORECASE)
# Names of columns: letters, perhaps joined, as in text_en; and of languages, as in English (US).
_JOINED, _TITLE = re.compile(r"[^\W\d_]+([_.-][^\W\d_]+)+"), re.compile(r"([^\W\d_]+( \(?\w+\)?)?)?")
# Names of the two columns, in the order of the languages; in the last entry, they say which is English.
COLUMNS = (
    ("sentence1", "sentence2"), ("source_sentence", "target_sentence"), ("source", "target"), ("src", "tgt"),
    ("src", "trg"), ("src_text", "trg_text"), ("text1", "text2"), ("text_a", "text_b"), ("sent1", "sent2"),
    ("original", "translation"), ("source text", "target text"), ("english", "non_english"),
)  # fmt: skip


@cache
def named_pair(names: tuple[str, ...], languages: tuple[str | None, ...]) -> tuple[int, int] | None:
    """Returns the columns of the source and the target, by the codes of their languages or one of the ``COLUMNS``.

    They are names, or else parts of names, as in ``text_en``.
    """
    english = COLUMNS[-1] if languages[0] == "en" else COLUMNS[-1][::-1]
    whole = [[name.strip().lower()] for name in names]
    parts = [re.split("[_.-]", name) if _JOINED.fullmatch(name) else [] for [name] in whole]
    there = [[{*words, *map(code_or_none, words)} for words in of] for of in (whole, parts)]
    for columns, pair in product(there, (languages, *COLUMNS[:-1], english)):
        places = [[place for place, words in enumerate(columns) if side in words] for side in pair]
        if None not in pair and list(map(len, places)) == [1, 1] and places[0] != places[1]:
            return places[0][0], places[1][0]
    return None


def table_pairs(
    path: Path, languages: Languages = (None, None), columns: Sequence[str] = ()
) -> Iterator[tuple[str, str, str | None]]:
    """Yields the source, the target and the domain of each row of a table with fields between tabs.

    The pair is known by the names of the columns, in a first line or in ``columns``. Otherwise, columns of numbers, of
    addresses and of values that repeat are left out; and where the UDHR has the languages, the text says which side is
    which. The first pair is logged, as a warning unless there are only two columns, or a domain before them.

    Args:
      path: the file; its blank lines are left out.
      languages: the languages of the source and the target.
      columns: a name for each column: ``source`` and ``target``, or the codes of the languages, and any others.

    Raises:
      OSError: there is no such file.
      ValueError: lines differ in their number of fields, or it is not clear which columns are the pair.
    """
    rows = _rows(path)
    head = list(islice(rows, _HEAD))
    header = len(head) > 1 and _is_header(head, languages)
    named = named_pair(tuple(columns or head[0]), tuple(languages)) if columns or header else None
    if columns and (named is None or len(columns) != len(head[0])):
        raise ValueError(f"{path} has {len(head[0])} columns; --columns is {' '.join(columns)}; name source and target")
    head = head[header:]
    source, target = named or _of_content(path, head, languages)
    domain = 0 not in (source, target) and not _all(_NO_TEXT, next(zip(*head, strict=True)))
    plain = not (header or columns) and (source, target, len(head[0])) == (domain, 1 + domain, 2 + domain)
    message = "%s: columns %d and %d are the pair; the first is %r and %r"
    values = path, source + 1, target + 1, head[0][source], head[0][target]
    log.log(logging.INFO if plain else logging.WARNING, message, *values)
    for fields in chain(head, rows):
        yield fields[source], fields[target], fields[0] if domain else None


def _rows(path: Path) -> Iterator[list[str]]:
    """Yields the fields of each line; raises ValueError unless there are two or more, and as many in every line."""
    width = 0
    for number, fields in tab_fields(enumerate(stream_lines(path), 1)):
        if fields[1:] or fields[0].strip():
            width = width or len(fields)
            if width < 2:
                raise ValueError(f"{path}, line {number}: expected source, tab, target, as mine writes them")
            if len(fields) != width:
                raise ValueError(f"{path}, line {number} has {len(fields)} tab-separated fields; expected {width}")
            yield fields
    if not width:
        raise ValueError(f"{path} is empty")


def _all(pattern: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(map(pattern.fullmatch, texts))


def _is_header(head: Sequence[Sequence[str]], languages: Languages) -> bool:
    """Whether a first line has the names of both sides, of English and another language, or of a column of numbers."""
    names, columns = head[0], zip(*head, strict=True)
    if any(any(x) and _all(_NO_TEXT, x) and not _NO_TEXT.fullmatch(name) for name, *x in columns):
        return True
    english = "english" in (name.partition(" ")[0].lower() for name in names) and _all(_TITLE, names)
    return english or named_pair(tuple(names), tuple(languages)) is not None


def _of_content(path: Path, rows: Sequence[Sequence[str]], languages: Languages) -> tuple[int, int]:
    """Returns the columns of the source and the target; raises ValueError if they are not clear."""
    columns = dict(enumerate(zip(*rows, strict=True)))
    most, kept = max(1, len(rows) // 10), list(columns)
    texts = [i for i in kept if not _all(_NO_TEXT, columns[i])]
    # Few sentences may all be numbers.
    kept = texts if len(texts) > 1 or len(texts) == 1 < most else kept
    # A licence differs only at its end, by who is named, and an id in its number.
    for varying in ("", r"\d"):
        left = [i for i in kept if len({re.sub(varying, "", x)[:12] for x in columns[i]}) > most]
        kept = left if len(kept) > 2 and len(left) > 1 else kept
    likelier = {i: _likelier({*columns[i][:100]}, languages) for i in kept}
    clear = [i for i in kept if likelier[i] > _CLEAR], [i for i in kept if likelier[i] < -_CLEAR]
    if list(map(len, clear)) == [1, 1]:
        kept = [clear[0][0], clear[1][0]]
    elif len(kept) == len(columns) == 3 and not any(clear) and not any(" " in text for text in columns[0]):
        kept = [1, 2]
    if len(kept) != 2:
        some = " | ".join(text[:40] for text in rows[0])
        raise ValueError(
            f"{path}: which two of the {len(columns)} columns ({some}) are the pair is not clear; name them in a first "
            "line, or by --columns, source and target, and the others by any other name"
        )
    # Two may be clear only together.
    first, second = kept
    turned = likelier[first] < 0 < likelier[second] and likelier[second] - likelier[first] > _CLEAR
    return (second, first) if turned else (first, second)


def _likelier(texts: Iterable[str], languages: Languages) -> float:
    """Returns how much likelier texts are in one language than in another, by three letters at a time.

    Of languages that the UDHR has not, it is by how many letters more or fewer are Latin if one of them is; else 0.
    """
    try:
        one, other = (_of_udhr(str(code)) for code in languages)
    except ValueError:
        scripts = ["" if code is None else script_of(code) for code in languages]
        if "" in scripts or scripts.count("Latn") != 1:
            return 0.0
        latin, letters = (len(regex.findall(kind, "".join(texts))) for kind in (r"(?=\p{L})\p{Latin}", r"\p{L}"))
        return float(2 * latin - letters) * (1 if scripts[0] == "Latn" else -1)
    scale = math.log((other.total() + _UNSEEN) / (one.total() + _UNSEEN))
    return sum(math.log((one[of] + 0.5) / (other[of] + 0.5)) + scale for of in _threes(texts))


@cache
def _of_udhr(code: str) -> Counter[str]:
    return _threes(udhr(languages=[code])[code])


def _threes(texts: Iterable[str]) -> Counter[str]:
    return Counter(text[i : i + 3] for text in map(" {} ".format, texts) for i in range(len(text) - 2))
