"""LASER's tokenizers, without fairseq.

LASER1 (93 languages) replaces control characters with spaces, applies Moses punctuation normalisation and tokenisation
in the sentence's language, splits Chinese into words with jieba and Japanese with MeCab, transliterates Greek to Latin
letters, lower-cases, and applies BPE. This follows LASER's ``source/lib/text_processing.py``, with the Python tools of
``laserembeddings`` in place of its Perl scripts.

LASER2 (147 languages) replaces control characters with spaces, applies Moses punctuation normalisation like the Perl
script, lower-cases, and applies SentencePiece, like ``laser_encoders``.

Both look up the pieces in the dictionary that comes with the weights and append ``</s>``; there is no token at the
beginning.
"""

import io
import re
import unicodedata
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from lsar_jax.checks import errors_of, whole_number
from lsar_jax.corpora.text_files import lines
from lsar_jax.extras import import_extra
from lsar_jax.files import check_file, read_json
from lsar_jax.tokens.tokenizer import SlowTokenizer

__all__ = ["laser_tokenizer"]

# Fixed by LASER, regardless of the dictionary.
SPECIAL_IDS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
# Codes in Tatoeba that LASER tokenizes like Mandarin.
_OF_CHINESE = {"yue": "zh", "wuu": "zh"}
SENTENCEPIECE, CODES, VOCABULARY, DICTIONARY = "sentencepiece.model", "bpe.codes", "bpe.vocab", "dictionary.json"
_needed = partial(import_extra, extra="laser", what="LASER's tokenizer")


def laser_tokenizer(folder: Path, vocabulary: int, longest: int) -> SlowTokenizer:
    """Opens the tokenizer of a folder that ``lsar-jax convert`` wrote; arguments as of ``fast_tokenizer``.

    Raises:
      FileNotFoundError: a file does not exist.
      ImportError: the ``laser`` extra is not installed.
      ValueError: a file is damaged, or an id is beyond the embeddings.
    """
    path = folder / DICTIONARY
    ids = read_json(path, dict)
    for piece, row in ids.items():
        whole_number(f"{path}: the id of {piece!r}", row, 0, vocabulary - 1, "the rows of the embeddings")
    ids |= SPECIAL_IDS
    if (folder / SENTENCEPIECE).is_file():
        split, uses_language = _laser2(folder / SENTENCEPIECE), False
    elif (folder / CODES).is_file():
        split, uses_language = _laser1(folder / CODES, folder / VOCABULARY), True
    else:
        raise FileNotFoundError(f"there is neither {SENTENCEPIECE} (LASER2) nor {CODES} (LASER1) in {folder}")

    def encode(sentence: str, language: str | None) -> list[int]:
        return [ids.get(piece, SPECIAL_IDS["<unk>"]) for piece in split(sentence, language)]

    return SlowTokenizer(encode, (), (SPECIAL_IDS["</s>"],), SPECIAL_IDS["<pad>"], longest, uses_language)


def _laser2(model: Path) -> Callable[[str, str | None], list[str]]:
    sentencepiece, sacremoses = _needed("sentencepiece"), _needed("sacremoses")
    check_file(model)
    with errors_of(f"{model} is not a SentencePiece model", OSError, RuntimeError):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    normalizer = sacremoses.MosesPunctNormalizer("en", perl_parity=True)
    # Moses 4.0 turns the left and the low single quote into double quotes, later versions into single quotes.
    normalizer.substitutions = [(p, '"' if p in ("\u2018", "\u201a") else r) for p, r in normalizer.substitutions]

    def split(sentence: str, language: str | None) -> list[str]:
        text = normalizer.normalize(_printable(sentence)).lower()
        # LASER writes the pieces to a file and splits it at spaces.
        return " ".join(processor.encode(text, out_type=str)).split()

    return split


def _laser1(codes: Path, vocabulary: Path) -> Callable[[str, str | None], list[str]]:
    _needed("sacremoses")
    bpe = _read_bpe(codes, vocabulary)

    def split(sentence: str, language: str | None) -> list[str]:
        text = _words(_OF_CHINESE.get(language or "en", language or "en"))(_printable(sentence)).lower()
        return bpe.process_line(text).split()

    return split


@cache
def _words(language: str) -> Callable[[str], str]:
    """Returns LASER1's word tokenizer for a language, which separates words by spaces."""
    sacremoses = _needed("sacremoses")
    normalizer, moses = sacremoses.MosesPunctNormalizer(language), sacremoses.MosesTokenizer(language)
    further: Callable[[str], str] = {"zh": _chinese, "ja": _japanese, "el": _greek}.get(language, lambda: str)()

    def words(text: str) -> str:
        text = normalizer.normalize(text)
        return further(moses.tokenize(text, return_str=True, escape=False, aggressive_dash_splits=False))

    return words


def _chinese() -> Callable[[str], str]:
    jieba = _needed("jieba")
    jieba.setLogLevel(60)
    return lambda text: " ".join(jieba.cut(text.rstrip("\r\n")))


def _japanese() -> Callable[[str], str]:
    mecab, ipadic = _needed("MeCab", package="mecab-python3"), _needed("ipadic")
    tagger = mecab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati -b 50000")
    return lambda text: tagger.parse(text).rstrip("\r\n")


def _greek() -> Callable[[str], str]:
    transliterate = _needed("transliterate")
    return lambda text: transliterate.translit(text, "el", reversed=True)


def _read_bpe(codes: Path, vocabulary: Path) -> Any:
    BPE = _needed("subword_nmt.apply_bpe", package="subword-nmt").BPE
    # Each line of fastBPE is a pair and its count; subword-nmt reads the pair, and exits the process if there is none.
    pairs = [line.split(" ")[:2] for line in _lines(codes, r"[^ ]+ [^ ]+( \d+)?", "a pair of pieces")]
    counts = [line.rsplit(" ", 1) for line in _lines(vocabulary, r".+ \d+", "a piece and its count")]
    merges = "\n".join(map(" ".join, pairs))
    return BPE(io.StringIO(f"#version: 0.2\n{merges}\n"), vocab={piece: int(count) for piece, count in counts})


def _lines(path: Path, form: str, name: str) -> list[str]:
    """Returns the lines of a file; raises ValueError unless each has this form, a regular expression."""
    found = lines(path)
    for number, line in enumerate(found, 1):
        if not re.fullmatch(form, line):
            raise ValueError(f"{path}, line {number}: {line!r:.60} is not {name}")
    return found


def _printable(text: str) -> str:
    return "".join(" " if unicodedata.category(letter)[0] == "C" else letter for letter in text)
