"""Tasks whose transforms are fitted on other text than they are measured on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.methods import Method
from eval.named import pinned
from eval.task import Task
from lsar_jax import EncoderSpec, corpora
from lsar_jax.corpora_hub import hub
from lsar_jax.documents import check_count
from lsar_jax.languages import language_code
from lsar_jax.prepared import prepared, prepared_languages

__all__ = ["FittedTask", "fit_texts"]


@dataclass(frozen=True)
class FittedTask(Task):
    """A task with text to fit on.

    Attributes:
      fit_on: udhr, the declaration of human rights, all paragraphs; a folder of one text file a
        language, de.txt, one sentence a line; tfds:wiki40b/{} or tfds:/a/folder/{}, prepared datasets
        with the language in place of {}; or hub:wikimedia/wikipedia, or another id of the Hub, with
        @ and a revision if need be.
      fit_count: sentences at most of a language.
    """

    fit_on: str = "udhr"
    fit_count: int = 10_000

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on."""
        return "udhr all" if self.fit_on == "udhr" else f"{pinned(self.fit_on)}, up to {self.fit_count} a language"

    def fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on of all ``languages``.

        Raises:
          ValueError: there is none of some.
        """
        found = self.some_fit_texts(languages)
        missing = [code for code in languages if code not in found]
        if missing:
            raise ValueError(f"--fit-on {self.fit_on} has no text of {', '.join(missing)}; leave these languages out")
        return found

    def some_fit_texts(self, languages: Sequence[str]) -> dict[str, list[str]]:
        """Returns the text to fit on of those of ``languages`` that have any."""
        return fit_texts(self.fit_on, languages, self.fit_count)

    def fitted(
        self, embeddings: Mapping[tuple[str, str], Float[np.ndarray, "layer _ dim"]], index: int, spec: EncoderSpec
    ) -> list[Method]:
        """Fits every method on the texts under ``("fit", code)``, on layer number ``index`` of those encoded."""
        return self.fit({code: x[index] for (group, code), x in embeddings.items() if group == "fit"}, spec)


def fit_texts(source: str, languages: Sequence[str], count: int) -> dict[str, list[str]]:
    """Returns text of each language that there is, up to ``count`` sentences; of the Hub all must be there.

    Raises:
      FileNotFoundError: a folder or dataset that is not there.
      ValueError: a source that is none of those.
    """
    check_count(count)
    wanted = list(dict.fromkeys(language_code(code) for code in languages))
    kind, _, place = source.partition(":")
    if source == "udhr":
        known = corpora.udhr()
        return {code: known[code][:count] for code in wanted if code in known}
    if kind == "tfds" and place:
        places = prepared_languages(place)
        return {code: prepared(places[code], count=count) for code in wanted if code in places}
    if kind == "hub" and place:
        name, _, revision = place.partition("@")
        return {code: hub(name, code, revision=revision or None, count=count) for code in wanted}
    if not Path(source).is_dir():
        raise FileNotFoundError(f"--fit-on {source} is not udhr, a folder, tfds:NAME/{{}} or hub:ID")
    there = corpora.language_files(source, ".txt")
    return corpora.text_folder(source, [code for code in wanted if code in there], count)
