"""MLQA in MTEB's form on the Hub: questions, passages of Wikipedia, and judgements of which are relevant.

``hub:mteb/MLQARetrieval`` has three configurations for each language, in German ``deu-deu-corpus`` (id, title,
text), ``deu-deu-queries`` (id, text) and ``deu-deu-qrels`` (query-id, corpus-id, score). Lewis et al., "MLQA", ACL
2020.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from lsar_jax.corpora.by_language import chosen
from lsar_jax.corpora.tables import Data, named_tables, numbered_rows, text_in
from lsar_jax.languages import code_or_none

__all__ = ["read_mlqa"]


def read_mlqa(data: Data, languages: Sequence[str]) -> Iterator[tuple[str, dict[str, str], dict[str, list[str]]]]:
    """Yields each language, its questions by id, and for each passage the ids of the questions it is relevant to.

    Raises:
      FileNotFoundError: there is no such dataset, or it has nothing in a language.
      ValueError: the data are no dataset, or a row lacks a field.
    """
    tables = named_tables(data)
    if tables is None:
        raise ValueError(f"--data is {data}; set it to hub:mteb/MLQARetrieval, or to hub: and the path of a copy")
    names = [config.removesuffix("-corpus") for config in tables.configs if config.endswith("-corpus")]
    of_language = {code_or_none(name.partition("-")[0]): name for name in names if len({*name.split("-")}) == 1}
    for code, name in chosen({code: name for code, name in of_language.items() if code}, languages, data).items():

        def rows(part: str, *columns: str, name: str = name) -> Iterator[tuple[dict[str, Any], list[str]]]:
            config = f"{name}-{part}"
            for where, row in numbered_rows(tables, config, "test" if "test" in tables.splits(config) else ""):
                yield row, [text_in(row, column, where) for column in columns]

        # As MTEB has them: the title before the text.
        passages = {id: f"{row.get('title') or ''} {text}".strip() for row, (id, text) in rows("corpus", "id", "text")}
        relevant: dict[str, list[str]] = {text: [] for text in passages.values()}
        for _, (question, passage, score) in rows("qrels", "query-id", "corpus-id", "score"):
            if float(score) > 0 and passage in passages:
                relevant[passages[passage]].append(question)
        yield code, {id: text for _, (id, text) in rows("queries", "id", "text")}, relevant
