"""The data that the cards read: where to get each set, where to put it, and which languages a copy of it has.

``docs/reference/evaluation.md`` says the same of the data of the tasks; a test compares the two.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from eval.data.tatoeba import XTREME_36, files_of
from eval.data.xquad import XQUAD_R
from lsar_jax import corpora
from lsar_jax.corpora.builders import Bucc, Parallel, XquadR
from lsar_jax.files import sha256, text_sha256

__all__ = ["MLQA_R", "SOURCES", "Source", "checksum_of", "languages_of_text"]

MLQA_R = ("ar", "de", "en", "es", "hi", "vi", "zh")


@dataclass(frozen=True)
class Source:
    """One set of data.

    Attributes:
      name: its name on the page.
      path: where it lies; empty for what comes with the library, and for prepared datasets.
      where: what to put there, and where to get it.
      revision: the commit that was read, if it is known.
      read: a pattern of the names of the files that are read.
      checksum: that of the copy from which the numbers on the page are; empty if they are of no copy.
      files: names of files, or patterns, of which each must exist in the folder.
      languages: the codes of the languages that it must have.
      has: returns the codes of the languages that a folder has.
    """

    name: str
    path: str
    where: str
    revision: str = ""
    read: str = "*.tsv"
    checksum: str = ""
    files: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    has: Callable[[Path], Iterable[str]] | None = None

    def folder(self, data: Path) -> Path:
        """Returns where the set lies, if ``data`` is the folder of all sets."""
        return data / self.path.removeprefix("data/") if self.path.startswith("data/") else Path(self.path)


def checksum_of(folder: Path, pattern: str) -> str:
    """Returns what ``LC_ALL=C; cd FOLDER; sha256sum PATTERN | sha256sum`` prints; empty if no file has such a name."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    lines = [f"{sha256([path]).removeprefix('sha256:')}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return text_sha256("".join(lines)) if lines else ""


def languages_of_text(folder: Path) -> list[str]:
    """Returns the languages of a folder of text files."""
    return list(corpora.language_files(folder, ".txt"))


def _reviews(folder: Path) -> list[str]:
    return [path.name.removesuffix("_test.tsv").replace("jp", "ja") for path in folder.glob("*_test.tsv")]


def _dictionaries(folder: Path) -> list[str]:
    return [path.name.removesuffix("-en.txt") for path in folder.glob("*-en.txt")]


def _with_english(folder: Path) -> list[str]:
    return [code for pair in Parallel.known(folder) for code in pair.split("-")]


def _mined(folder: Path) -> list[str]:
    return [pair.removesuffix("-en") for pair in Bucc.known(folder)]


_BITEXT = ("ar", "de", "el", "es", "fr", "hi", "it", "ja", "nl", "pt", "ro", "ru", "tr", "vi", "zh")

SOURCES = {
    "udhr": Source("UDHR", "", "comes with the library"),
    "tatoeba": Source(
        "Tatoeba", "data/tatoeba", "a copy of `data/tatoeba/v1` of facebookresearch/LASER",
        read="tatoeba.*", checksum="7229248d5f0352c586e27a4ee6ffd20c92d553ac05497373bb53fdf0131a5ae4",
        languages=XTREME_36, has=files_of,
    ),
    "xquad-r": Source(
        "XQuAD-R", "data/xquad-r", "a copy of `xquad-r` of google-research-datasets/lareqa",
        read="*.json", checksum="cf47b10b898adc62d2643380ec1e7914a604622dc642549c9db47fa48fa28755",
        languages=XQUAD_R, has=XquadR.known,
    ),
    "mlqa-r": Source(
        "MLQA-R", "data/mlqa-r", "a copy of `mlqa-r` of google-research-datasets/lareqa",
        read="*.json",
        revision="354d67d1cd066854cdfbf5ad0e6105528976141d", languages=MLQA_R, has=XquadR.known,
    ),
    "sts17": Source(
        "STS17", "data/sts17", "a copy of `sts2017` of eduardofv/sts_eval",
        read="STS.*.txt", checksum="30ed8522f7e80a566562d553f194dfa75663c70d242797ee295b908ee5c4258f",
        files=("STS.input.track*.txt", "STS.gs.track*.txt"),
    ),
    "bucc": Source(
        "BUCC", "data/bucc2018", "the files of comparable.limsi.fr/bucc2018, or those that `make-bucc` writes",
        read="**/*",
        languages=("de", "fr", "ru", "zh"), has=_mined,
    ),
    "amazon": Source(
        "Amazon", "data/amazon", "a copy of `cross-lingual-sentiment` of automl-mm-bench",
        files=("en_train.tsv",), languages=("en", "de", "fr", "ja"), has=_reviews,
    ),
    "bitext": Source(
        "pairs", "data/bitext", "`en-xx.tsv`, a table with the columns domain, English, xx",
        checksum="4d082b11a0f6cb45cd1aff50ad73f6c230dd27d7ae4fc491a4908621c7c2505f",
        languages=_BITEXT, has=_with_english,
    ),
    "sentences": Source(
        "pairs", "data/sentences", "`en-xx.tsv`, English and the other language, separated by a tab",
        checksum="8c7d3f8b868be7307f931d7a3ebc078045bd2b44b345ff46445829e9c3a7d09f",
        files=("en-*.tsv",),
    ),
    "dictionaries": Source(
        "dictionaries", "data/dictionaries",
        "`xx-en.txt`, MUSE's dictionaries, or those that `make-dictionaries` writes",
        read="*-en.txt",
        languages=("ar", "de", "es", "fr", "it", "nl", "pt"), has=_dictionaries,
    ),
    "freedict": Source(
        "FreeDict", "/usr/share/dictd", "`apt install dict-freedict-{ara,deu,fra,ita,nld,por,spa}-eng`",
        read="freedict-*-eng.*",
        files=("freedict-*-eng.index",),
    ),
    "uriel": Source(
        "URIEL's distances", "data/lang2vec",
        "`distances2.zip` and `distances_languages.txt` of `lang2vec/data` of antonisa/lang2vec",
        read="distances*",
        files=("distances2.zip", "distances_languages.txt"),
    ),
    "ud": Source(
        "UD", "data/ud", "CoNLL-U files of universaldependencies.org, in the paper those of version 2.6",
        read="*.conllu", checksum="719836051356adf1f0c0d4af28e8c920191302e2588836e60f17f33c8ccdc500",
        files=("en_ewt-ud-*.conllu",),
    ),
    "oscar": Source(
        "OSCAR", "text/oscar",
        "`xx.txt`, a sentence a line, 10,000 of each language of the Hub's dataset oscar "
        "(unshuffled_deduplicated_xx), whose documents are split into lines",
        read="*.txt",
        has=languages_of_text,
    ),
    "wiki": Source(
        "text", "text/wiki", "`xx.txt`, the column Sentence of the CSV files of Sara-Rajaee/Multilingual-Isotropy",
        read="*.txt",
        languages=("ar", "en", "es", "su", "sw", "tr"), has=languages_of_text,
    ),
    "wiki40b": Source(
        "Wiki-40B", "", "`wiki40b/xx` of TensorFlow Datasets, prepared elsewhere as array_record, in `TFDS_DATA_DIR`"
    ),
}  # fmt: skip
