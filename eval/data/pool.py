"""A pool of aligned text: half of the UDHR, or one file per language with the same content in line i of all files."""

from pathlib import Path

from eval.data.tatoeba import check_not_blank
from lsar_jax import corpora

__all__ = ["read_pool"]


def read_pool(data: str | Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Returns the parallel lines of each language, in alphabetical order of the codes.

    Args:
      data: ``udhr`` for the half that is not used for fitting, or a folder of {language}.txt files.
      languages: language codes; by default, all available.

    Raises:
      FileNotFoundError: the folder or the file of a language does not exist.
      ValueError: there are fewer than two languages, a line is blank, or the files differ in length.
    """
    if str(data) == "udhr":
        return corpora.udhr("test", languages or None)
    folder = Path(data)
    paths = corpora.language_files(folder, ".txt", languages or None)
    texts = {code: corpora.lines(path) for code, path in paths.items()}
    if len(texts) < 2:
        raise ValueError(f"{folder} has {', '.join(texts)}; a pool needs at least two languages")
    for code, text in texts.items():
        check_not_blank(text, str(paths[code]))
    counts = {str(paths[code]): len(text) for code, text in texts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the files differ in their number of lines: {counts}")
    return texts
