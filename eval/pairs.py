"""Tasks on translated pairs: find each sentence's translation among the other language's sentences.

Nearest by cosine, accuracy of the first, both directions, mean over languages. A method is tested on the languages that
it was fitted on; what is shared by all languages, and the original, on all: the ones it never saw are reported
by themselves.
"""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from eval.fitted import FittedTask
from eval.methods import Method
from eval.named import Data, check_split
from eval.resampling import Queries
from eval.results import Result
from lsar_jax import EncoderSpec
from lsar_jax.languages import language_code
from lsar_jax.retrieval import nearest

__all__ = ["Embedded", "PairTask", "Pairs"]

# Language -> English sentences and theirs, line i translates line i.
Pairs = Mapping[str, tuple[Sequence[str], Sequence[str]]]
# ``en`` and the language, or ``xx`` and the language -> embeddings of one layer.
Embedded = Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]]

_DIRECTIONS = (("en", "xx"), ("xx", "en"))


@dataclass(frozen=True)
class PairTask(FittedTask):
    """Retrieval of translations, from English and into it.

    Attributes:
      data: pairs of sentences.
      seen: languages that transforms may be fitted on; by default all that there is text of.
      split: of data with a name, hub:ID or tfds:NAME; by default its only one or test.
    """

    data: Data = ""
    seen: tuple[str, ...] = ()
    split: str = ""

    @property
    @abstractmethod
    def title(self) -> str:
        """What tables and figures are called."""

    @abstractmethod
    def pairs(self) -> Pairs:
        """Returns the pairs of each language.

        Raises:
          FileNotFoundError: data that is not there.
          ValueError: data that is not as it must be.
        """

    def groups(self) -> dict[str, Sequence[str]]:
        """Returns sets of languages that have means of their own, by name."""
        return {}

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and a figure."""
        results, seen = self.measure()
        # Where no method is tested on more, one mean a direction says it all.
        shown = [f"{a}-{b} mean over {seen}" for a, b in _DIRECTIONS]
        self.report(results, self.title, shown, shown[0])
        return results

    def measure(self) -> tuple[list[Result], int]:
        """Encodes, fits and scores; returns the results, and how many languages there is text of."""
        check_split(self.data, self.split)
        pairs = self.pairs()
        fit = self.pair_fit_texts(pairs) if self.fits else {}
        texts = {("fit", code): text for code, text in fit.items()}
        for code, (english, other) in pairs.items():
            texts |= {("en", code): list(english), ("xx", code): list(other)}
        seen = [code for code in pairs if not fit or code in fit]
        encoder = self.prepare(len(seen) + 1)
        embeddings = self.encode(encoder, texts)
        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            x = {key: value[index] for key, value in embeddings.items()}
            for methods in self.methods(x, seen, spec):
                results += self.score(methods, x, seen, spec)
        return results, len(seen)

    def pair_fit_texts(self, pairs: Pairs) -> dict[str, list[str]]:
        """Returns the text to fit on, English and what there is of the seen languages.

        Raises:
          ValueError: there is none of English, or of any of them.
        """
        wanted = [language_code(code) for code in self.seen] or list(pairs)
        unknown = [code for code in wanted if code not in pairs]
        if unknown:
            raise ValueError(f"--seen {', '.join(unknown)}: there are pairs of {', '.join(pairs)}")
        found = self.some_fit_texts([*wanted, "en"])
        if len(found) < 2 or "en" not in found:
            raise ValueError(f"--fit-on {self.fit_on} has text of {', '.join(found) or 'none'}; English and one more")
        return found

    def methods(self, x: Embedded, seen: Sequence[str], spec: EncoderSpec) -> list[dict[str, Method]]:
        """Fits every method; returns a list of language -> method, for each that is to be scored."""
        every = [code for side, code in x if side == "xx"]
        fit = {code: value for (side, code), value in x.items() if side == "fit"}
        result = []
        for method in self.fit(fit, spec):
            shared = method.transform is None or method.transform.languages is None
            result.append({code: method for code in (every if shared else seen)})
        return result

    def score(self, methods: Mapping[str, Method], x: Embedded, seen: Sequence[str], spec: EncoderSpec) -> list[Result]:
        """Returns the accuracy of each language and direction, and their means.

        Means are over the seen languages and, where more were tested, over all, the others, and each of
        ``groups`` of which all were.
        """
        method = next(iter(methods.values()))
        hits: dict[tuple[str, str, str], Bool[np.ndarray, " query"]] = {}
        seconds = dict.fromkeys(_DIRECTIONS, 0.0)
        for code, one in methods.items():
            sides = {"en": one(x["en", code], "en"), "xx": one(x["xx", code], code)}
            for query, candidate in _DIRECTIONS:
                started = time.perf_counter()
                _, found = nearest(sides[query], sides[candidate])
                hits[query, candidate, code] = np.asarray(found)[:, 0] == np.arange(len(found))
                seconds[query, candidate] += time.perf_counter() - started
        tested = list(methods)
        means = {f"mean over {len(seen)}": list(seen), f"mean over {len(tested)}": tested}
        if unseen := [code for code in tested if code not in seen]:
            means[f"mean over {len(unseen)} unseen"] = unseen
        means |= {f"mean {name}": list(codes) for name, codes in self.groups().items() if set(codes) <= set(tested)}
        results = []
        for direction in _DIRECTIONS:
            query, candidate = direction
            value = {code: 100 * float(hits[query, candidate, code].mean()) for code in tested}
            for code in tested:
                name = f"{query if query == 'en' else code}-{candidate if candidate == 'en' else code} accuracy"
                hit = hits[query, candidate, code]
                made = self.result(spec, method, [code], name, value[code], len(hit), 0.0)
                results.append(made.resampled(Queries(100.0 * hit)))
            for name, codes in means.items():
                parts = [hits[query, candidate, code] for code in codes]
                strata = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
                mean, n = float(np.mean([value[code] for code in codes])), len(strata)
                made = self.result(spec, method, codes, f"{query}-{candidate} {name}", mean, n, seconds[direction])
                results.append(made.resampled(Queries(100.0 * np.concatenate(parts), strata)))
        return results
