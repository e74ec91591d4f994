"""A pool of aligned text: one file a language, line i the same in every file; or half of the UDHR."""

from pathlib import Path

from lsar_jax import corpora

__all__ = ["read_pool"]


def read_pool(data: str | Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Returns the lines of each language, line i the same in each, in alphabetical order of the codes.

    Args:
      data: ``udhr``, the half that is not to fit on, or a folder of {language}.txt files.
      languages: codes; by default all that there are.

    Raises:
      FileNotFoundError: no such folder, or no file of a language.
      ValueError: fewer than two languages, or files of different numbers of lines.
    """
    if str(data) == "udhr":
        return corpora.udhr("test", languages or None)
    folder = Path(data)
    paths = corpora.language_files(folder, ".txt", languages or None)
    texts = {code: corpora.lines(path) for code, path in paths.items()}
    if len(texts) < 2:
        raise ValueError(f"{folder} has {', '.join(texts)}; a pool needs two languages")
    for code, text in texts.items():
        if blank := next((number for number, line in enumerate(text, 1) if not line.strip()), None):
            raise ValueError(f"{paths[code]}, line {blank} is blank")
    counts = {str(paths[code]): len(text) for code, text in texts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the files differ in their number of lines: {counts}")
    return texts
