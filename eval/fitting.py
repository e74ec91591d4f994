"""What the methods of an evaluation are fitted on, chosen before anything is encoded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from eval.data.fit_text import fit_texts, text_languages
from eval.methods import (
    FITTED,
    OF_FILES,
    OF_PAIRS,
    FileMethod,
    Method,
    MethodName,
    check_methods,
    fit_files,
    fit_methods,
    fit_pairs,
    saved_method,
)
from eval.task import Embedded, OwnText, Task, Texts, language_of
from lsar_jax import EncoderSpec, SentenceEncoder, Transform
from lsar_jax.cli.console import console
from lsar_jax.corpora.parallel_text import Pair, read_bitext
from lsar_jax.corpora.sentence_filters import check_count
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code

__all__ = ["EVALUATED", "FitLanguages", "FitOptions", "Fitting", "MethodOptions", "choose"]

FitLanguages = Literal["tested", "all"]
EVALUATED = "evaluated"


@dataclass(frozen=True)
class MethodOptions:
    """Which methods are compared.

    Attributes:
      transforms: methods to compare.
      ranks: ranks of LSAR, each in a row of its own; by default, one less than the number of languages it is fitted on.
      components: numbers of components that LIR removes, each in a row of its own.
      largest: numbers of dimensions with the largest means in each language but English whose union the method
        largest zeroes, each in a row of its own.
      zero: dimensions that the method zero zeroes, such as 588 or 588,306, each in a row of its own.
      fit_seeds: seeds of CBIE's clustering; each gives its own result, and tables show their mean.
    """

    transforms: tuple[MethodName, ...] = ("original", "center", "lir", "lsar")
    ranks: tuple[int, ...] = ()
    components: tuple[int, ...] = (1,)
    largest: tuple[int, ...] = (10,)
    zero: tuple[str, ...] = ()
    fit_seeds: tuple[int, ...] = (0,)

    @property
    def varied(self) -> dict[str, Sequence[Any]]:
        """The values of each option that methods are fitted with, each in a row of its own."""
        return {
            "rank": self.ranks,
            "components": self.components,
            "largest": self.largest,
            "zero": self.zero,
            "seed": self.fit_seeds,
        }


@dataclass(frozen=True)
class FitOptions(MethodOptions):
    """Which methods are compared, and what they are fitted on.

    Attributes:
      saved: files of transforms that were fitted on this encoder, to add to the comparison; each is tested at the layer
        that it was fitted on.
      fit_on: text to fit transforms on: udhr, the paragraphs of the Universal Declaration of Human Rights (if they are
        also measured, the half that is not); a folder with one text file per language, such as de.txt, and one
        sentence per line; tfds:wiki40b/{} or tfds:/a/folder/{} for prepared datasets, where {} stands for the
        language; hub: and the id of a dataset on the Hub, optionally followed by @ and a revision; or, of some tasks,
        evaluated, for the evaluated sentences, and train, for the pairs that are not held out.
      fit_count: maximum number of sentences per language.
      fit_languages: languages to fit on: tested, or all that the text has. More languages give a shared method such as
        LSAR more to remove.
      parallel: parallel text of English and other languages, for the methods that are fitted on pairs, linear and
        shift: a folder of en-xx.tsv or Moses files, a prepared dataset, hub:ID, or tfds:NAME. They are tested on the
        languages that it has.
    """

    saved: tuple[Path, ...] = ()
    fit_on: str = "udhr"
    fit_count: int = 10_000
    fit_languages: FitLanguages = "tested"
    parallel: Data | None = None


@dataclass(frozen=True)
class Fitting:
    """The methods, and the text that they are fitted on.

    Attributes:
      options: the methods and their options.
      texts: the text to fit on: group ``fit``, and ``fit en`` and ``fit xx`` for the sides of parallel text.
      languages: languages to fit on.
      paired: languages of the parallel text.
      name: name of the text in results.
      paired_name: name of the parallel text in results.
      saved: saved transforms, by their files.
      task: the task, if its evaluated sentences are fitted on.
    """

    options: MethodOptions
    texts: Texts
    languages: Sequence[str]
    paired: Sequence[str]
    name: str
    paired_name: str = ""
    saved: Mapping[Path, Method] = field(default_factory=dict)
    task: Task | None = None

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits the methods on the embeddings of a layer, and adds the saved ones that belong to it."""
        names, varied = self.options.transforms, self.options.varied
        saved = [method for method in self.saved.values() if (s := method.source) is None or s.same_space(spec)]
        if self.task is not None and self.task.by_language is not None:
            test = {key: value for key, value in x.items() if not key[0].startswith("fit")}
            together = self.task.by_language(test)
            if not self.task.by_file:
                return fit_methods(together, names, varied, source=spec) + saved
            languages = {key: language_of(key) for key in test}
            fitted: list[Method] = []
            for name in names:
                if name == "whitening" and "language-whitening" in names:  # the same here
                    continue
                if name in OF_FILES:
                    fitted += fit_files(name, test, languages, seeds=self.options.fit_seeds, source=spec)
                else:
                    fitted += fit_methods(together, (name,), varied, source=spec)
            return fitted + saved
        own = {code: value for (group, code), value in x.items() if group == "fit"}
        pairs = {code: (value, x["fit en", code]) for (group, code), value in x.items() if group == "fit xx"}
        of_text = [name for name in names if name not in OF_PAIRS]
        of_pairs = [fit_pairs(name, pairs, spec) for name in names if name in OF_PAIRS]
        return fit_methods(own, of_text, varied, source=spec) + saved + of_pairs

    def text_of(self, method: Method) -> str:
        """Returns the name, in results, of the text that a method was fitted on; empty if it was not fitted."""
        paths = [str(path) for path, saved in self.saved.items() if saved is method]
        if paths:
            return paths[0]
        if not isinstance(method, FileMethod) and (method.transform is None or method.name == "zero"):
            return ""
        if method.name in OF_PAIRS:
            return self.paired_name
        return self.name

    def check(self, encoder: SentenceEncoder, layers: Sequence[int]) -> None:
        """Checks the options of the methods, before anything is encoded.

        Raises:
          ValueError: an option is out of range, or a saved transform was fitted on other embeddings.
        """
        widest = max(encoder.dim, *(encoder.model.config.widths[layer] for layer in layers))
        check_methods(self.options.transforms, self.options.varied, len(self.languages), widest)
        specs = [replace(encoder.spec, layer=layer) for layer in layers]
        for path, method in self.saved.items():
            source = method.source
            if source and not any(source.same_space(spec) for spec in specs):
                differences = ", or ".join(source.difference(spec) for spec in specs)
                raise ValueError(
                    f"{path} was fitted on other embeddings than this task uses: {differences}; omit the file, or "
                    "choose the encoder and layer that it was fitted on"
                )


def choose(task: Task, options: FitOptions) -> Fitting:
    """Reads the text to fit the methods of a task on.

    Raises:
      FileNotFoundError: the text, or a saved transform, does not exist.
      ValueError: the options contradict each other, or the text lacks a language.
    """
    saved = {path: saved_method(Transform.load(path)) for path in options.saved}
    _check_values(options)
    for name in options.transforms:
        if why := _lacking(task, options, name):
            raise ValueError(f"--transforms has {name}, {why}")
    _check_saved(task, saved)
    if options.fit_on == EVALUATED and task.by_language is not None:
        if options.fit_languages == "all":
            raise ValueError("--fit-languages all cannot be combined with --fit-on evaluated; omit one of them")
        languages = list(dict.fromkeys(task.languages))
        _check_ranks(options, len(languages))
        return Fitting(options, {}, languages, (), "the evaluated sentences", "", saved, task)
    if options.fit_on == EVALUATED:
        raise ValueError(f"--fit-on evaluated cannot be used with {task.name}, or with --seen; choose another text")
    own = task.own_text.get(options.fit_on)
    name = own.name if own else "udhr all" if options.fit_on == "udhr" else options.fit_on
    if options.fit_on != "udhr":
        name += f", up to {options.fit_count} a language"
    text: Mapping[str, Sequence[str]] = {}
    if set(options.transforms) != {"original"}:
        text = _text(task, options, own)
    languages = list(text) or list(dict.fromkeys(task.languages))
    _check_ranks(options, len(languages))
    pairs = _pairs(task, options)
    sides = {
        (f"fit {side}", code): [pair[n] for pair in rows]
        for n, side in enumerate(("en", "xx"))
        for code, rows in pairs.items()
    }
    texts = {("fit", code): sentences for code, sentences in text.items()} | sides
    paired_name = f"{options.parallel}, up to {options.fit_count} a language"
    return Fitting(options, texts, languages, list(pairs), name, paired_name, saved)


def _text(task: Task, options: FitOptions, own: OwnText | None) -> dict[str, Sequence[str]]:
    """Returns the text to fit on, in the languages of the task, or in all that it has."""
    wanted = list(dict.fromkeys(task.languages))
    if options.fit_languages == "all":
        there = own.languages() if own else text_languages(options.fit_on)
        wanted += [code for code in there if code not in wanted and code not in _tested(task)]
    read = own.read if own else lambda codes, count: fit_texts(options.fit_on, codes, count)
    text = dict(read(wanted, options.fit_count))
    lacking = [code for code in task.languages if code not in text]
    if not task.some:
        if lacking:
            raise ValueError(f"--fit-on {options.fit_on} has no text in {', '.join(lacking)}; omit these languages")
        return text
    if len(text) < 2 or "en" not in text:
        raise ValueError(
            f"--fit-on {options.fit_on} has text in {', '.join(text) or 'none'} of the languages; it must have text "
            "in English and in at least one other"
        )
    if lacking:
        console.print(
            f"--fit-on {options.fit_on} has no text in {', '.join(lacking)}: transforms are not fitted on these "
            "languages, and those that depend on the language are not tested on them either"
        )
    return text


def _pairs(task: Task, options: FitOptions) -> dict[str, list[Pair]]:
    """Returns the parallel text in the tested languages that it has; empty if no method is fitted on pairs."""
    if options.parallel is None or not set(options.transforms) & OF_PAIRS.keys():
        return {}
    there = read_bitext(options.parallel, (), "--parallel")
    wanted = [code for code in dict.fromkeys(task.languages) if code != "en"]
    pairs = {code: there[code][: options.fit_count] for code in wanted if there.get(code)}
    lacking = [code for code in wanted if code not in pairs]
    if not pairs or (lacking and not task.some):
        raise ValueError(
            f"--parallel {options.parallel} has {', '.join(there)}, but not {', '.join(lacking)}; "
            + ("test other languages" if not pairs else "omit these languages, or the methods linear and shift")
        )
    if lacking:
        console.print(f"--parallel {options.parallel} has no pairs of {', '.join(lacking)}: no map is tested on these")
    return pairs


def _tested(task: Task) -> set[str]:
    return {language_of(key) for part in task.parts for key in part}


def _lacking(task: Task, options: FitOptions, name: str) -> str:
    """Returns why a method cannot be fitted, as the end of a sentence; empty if it can."""
    evaluated = options.fit_on == EVALUATED
    if name in OF_PAIRS:
        if evaluated:
            return "which is fitted on parallel text; it cannot be combined with --fit-on evaluated"
        return "" if options.parallel is not None else "which is fitted on parallel text; name some with --parallel"
    if name == "original" or name in FITTED:
        return ""
    if not task.by_file:
        return f"which {task.name} cannot fit; omit it"
    return "" if evaluated else "which whitens the evaluated sentences; add --fit-on evaluated"


def _check_values(options: FitOptions) -> None:
    """Raises ValueError if an option has a value twice, or there is no method."""
    for option in ("transforms", "ranks", "components", "largest", "zero", "fit_seeds"):
        values = getattr(options, option)
        if len(set(values)) != len(values):
            raise ValueError(
                f"--{option.replace('_', '-')} {' '.join(map(str, values))} contains a value twice; remove duplicates"
            )
    if not options.transforms:
        raise ValueError("--transforms needs at least one value")
    check_count(options.fit_count)


def _check_ranks(options: FitOptions, languages: int) -> None:
    """Raises ValueError if the means of so many languages do not span the ranks."""
    if not any(FITTED[name].varied == "rank" for name in options.transforms if name in FITTED):
        return
    if languages < 2:
        raise ValueError("lsar needs at least two languages to fit on, but there is one; omit it from --transforms")
    if (highest := max(options.ranks, default=1)) >= languages:
        raise ValueError(
            f"--ranks has {highest}, but the means of {languages} languages span at most {languages - 1} dimensions; "
            "lower the rank"
        )


def _check_saved(task: Task, saved: Mapping[Path, Method]) -> None:
    """Checks that saved transforms differ, and were fitted on the tested languages.

    A task that tests a method on some of the languages says which are left out.
    """
    names = [(method.label, method.seed, method.source) for method in saved.values()]
    codes = dict.fromkeys(map(language_code, _tested(task)))
    for (path, method), name in zip(saved.items(), names, strict=True):
        if names.count(name) > 1:
            raise ValueError(
                f"{path} has the same method {name[0]!r}, embeddings and seed as another --saved file; omit one"
            )
        lacking = [code for code in codes if not method.takes(code)]
        if task.some and "en" not in lacking and len(lacking) < len(codes) - 1:
            if lacking:
                console.print(f"{path} was not fitted on {', '.join(lacking)}; its rows leave them out")
        elif lacking:
            raise ValueError(
                f"{path} was not fitted on {', '.join(lacking)}; omit the file, or test languages that it was fitted on"
            )
