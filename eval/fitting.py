"""The methods of an evaluation, and the text that they are fitted on, chosen before anything is encoded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.data.fit_text import fit_text
from eval.fit_options import EVALUATED, FitOptions
from eval.task import Embedded, Task, Texts, language_of
from lsar_jax import EncoderSpec, SentenceEncoder, Transform
from lsar_jax.console.output import console
from lsar_jax.corpora.parallel_text import Pair, read_bitext
from lsar_jax.corpora.sentence_filters import check_count
from lsar_jax.encoders.options import check_transform
from lsar_jax.languages import language_code
from lsar_jax.measures.compared_methods import (
    CSLS,
    OF_FILES,
    OF_PAIRS,
    OF_SAMPLES,
    Method,
    check_methods,
    fit_files,
    fit_methods,
)
from lsar_jax.transforms.base.sample import sample_rows

__all__ = ["Fitting", "choose"]


@dataclass(frozen=True)
class Fitting:
    """The methods, and the text that they are fitted on.

    Attributes:
      texts: the text to fit on: group ``fit``, and ``fit en`` and ``fit xx`` for the sides of parallel text.
      languages, paired: languages to fit on, and languages of the parallel text.
      name, paired_name: names of the text and of the parallel text in results.
      saved, task: saved transforms by their files; the task, if its evaluated sentences are fitted on.
    """

    options: FitOptions
    texts: Texts
    languages: Sequence[str]
    paired: Sequence[str]
    name: str
    paired_name: str = ""
    saved: Mapping[Path, Method] = field(default_factory=dict)
    task: Task | None = None

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Returns the methods, fitted on the embeddings of a layer, with each of the scores."""
        fitted = self._fitted(x, spec)
        if "csls" not in self.options.scores:
            return fitted
        sample = sample_rows({code: value for (group, code), value in x.items() if group == "fit"})
        scaled = [method.scaled(sample) for method in fitted]
        return [of[n] for of in zip(fitted, scaled, strict=True) for n in range("cosine" not in self.options.scores, 2)]

    def _fitted(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits the methods on the embeddings of a layer, and adds the saved ones that belong to it."""
        names, varied = self.options.transforms, self.options.varied
        saved = [method for method in self.saved.values() if (s := method.source) is None or s.same_space(spec)]
        if self.task is not None:
            test = {key: value for key, value in x.items() if not key[0].startswith("fit")}
            together = _by_language(test, self.languages)
            if self.task.evaluated == "by language":
                return fit_methods(together, names, varied, source=spec) + saved
            languages = {key: language_of(key) for key in test}
            fitted: list[Method] = []
            for name in names:
                if name in OF_FILES:
                    known = {method.label for method in fitted}  # two methods may be the same here
                    files = fit_files(name, test, languages, varied, source=spec)
                    fitted += [method for method in files if method.label not in known]
                else:
                    fitted += fit_methods(together, (name,), varied, source=spec)
            return fitted + saved
        text = {code: value for (group, code), value in x.items() if group == "fit"}
        pairs = {code: (value, x["fit en", code]) for (group, code), value in x.items() if group == "fit xx"}
        fitted = fit_methods(text, [name for name in names if name not in OF_PAIRS], varied, source=spec) + saved
        return fitted + [Method(name, {}, OF_PAIRS[name](pairs, source=spec)) for name in names if name in OF_PAIRS]

    def text_of(self, method: Method) -> str:
        """The name, in results, of the text that a method was fitted on; empty if it was not fitted."""
        if files := [path for path, saved in self.saved.items() if saved is method]:
            return str(files[0])
        fits = method.transform.fits if method.transform else ()
        if not method.by_file and method.bank is None and not any(fit.fitted_on for fit in fits):
            return ""
        return self.paired_name if method.name.removesuffix(CSLS) in OF_PAIRS else self.name

    def check(self, encoder: SentenceEncoder, layers: Sequence[int]) -> None:
        """Checks the methods before anything is encoded."""
        widest = max(map(encoder.dim_of, (encoder.spec.layer, *layers)))
        check_methods(self.options.transforms, self.options.varied, self.languages, widest)
        specs = [replace(encoder.spec, layer=layer) for layer in layers]
        for path, method in self.saved.items():
            if (saved := method.transform) is not None:  # of any layer: that it is not applied twice
                here = saved.source or encoder.spec
                check_transform(saved, here, saved.dim, encoder.applied, f"the encoder {encoder.spec.id}")
            if (source := method.source) and not any(source.same_space(spec) for spec in specs):
                differences = ", or ".join(source.difference(spec) for spec in specs)
                raise ValueError(
                    f"{path} was fitted on other embeddings than this task uses: {differences}; omit the file, or "
                    "choose the encoder and layer that it was fitted on"
                )


def choose(task: Task, options: FitOptions) -> Fitting:
    """Reads the text to fit the methods of a task on, after checking that the options agree with the task."""
    options = options if task.searches else replace(options, scores=("cosine",))
    _check_options(task, options)
    saved = _saved(task, options.saved)
    codes, limit = list(dict.fromkeys(task.languages)), f", up to {options.fit_count} a language"
    if options.fit_on == EVALUATED:
        return Fitting(options, {}, codes, (), "the evaluated sentences", "", saved, task)
    name, text = "", {}
    if options.reads_text:
        source = task.own_text.get(options.fit_on) or fit_text(options.fit_on)
        name = source.name + ("" if options.fit_on == "udhr" else limit)
        more = source.languages() if options.fit_languages == "all" else ()
        text = dict(source.read([*codes, *(c for c in more if c not in {*codes, *_tested(task)})], options.fit_count))
        _check_text(task, options.fit_on, text)
    pairs = _pairs(task, options)
    texts = {("fit", code): sentences for code, sentences in text.items()}
    for n, side in enumerate(("fit en", "fit xx")):
        texts |= {(side, code): [pair[n] for pair in rows] for code, rows in pairs.items()}
    languages = list(text) or codes
    if task.half_rank and not options.ranks:
        most = len(languages) - 1
        options = replace(options, ranks=tuple(dict.fromkeys((max(1, -(-most // 2)), most))))
    return Fitting(options, texts, languages, list(pairs), name, f"{options.parallel}{limit}", saved)


def _by_language(x: Embedded, codes: Sequence[str]) -> dict[str, Float[np.ndarray, "_ dim"]]:
    """The evaluated embeddings of each language, from all texts in it."""
    parts = {code: [rows for key, rows in x.items() if language_of(key) == code] for code in codes}
    return {code: np.concatenate(rows) for code, rows in parts.items() if rows}


def _tested(task: Task) -> set[str]:
    return {language_of(key) for part in task.parts for key in part}


def _check_options(task: Task, options: FitOptions) -> None:
    for option, values in vars(options).items():
        if isinstance(values, tuple) and len({*values}) != len(values):
            given = f"--{option.replace('_', '-')} {' '.join(map(str, values))}"
            raise ValueError(f"{given} contains a value twice; remove duplicates")
    check_count(options.fit_count)
    evaluated, by_file = options.fit_on == EVALUATED, task.evaluated == "by file"
    why = "" if options.transforms else "no value; give at least one"
    for name in options.transforms:
        if name in OF_PAIRS and (evaluated or options.parallel is None):
            fix = "it cannot be combined with --fit-on evaluated" if evaluated else "name some with --parallel"
            why = f"{name}, which is fitted on parallel text; {fix}"
        elif name in OF_SAMPLES and not (by_file and evaluated):
            fix = "whitens the evaluated sentences; add --fit-on evaluated"
            why = f"{name}, which {fix if by_file else f'{task.name} cannot fit; omit it'}"
    if why:
        raise ValueError(f"--transforms has {why}")
    if evaluated and (task.evaluated == "no" or options.fit_languages == "all" or "csls" in options.scores):
        option = "scores csls" if "csls" in options.scores else "fit-languages all"
        other = f"combined with --{option}; omit one of them"
        why = f"used with {task.name}, or with --seen; choose another text" if task.evaluated == "no" else other
        raise ValueError(f"--fit-on evaluated cannot be {why}")


def _saved(task: Task, paths: Sequence[Path]) -> dict[Path, Method]:
    """The saved transforms, which must differ, and be fitted on the tested languages, or on some if the task allows."""
    saved: dict[Path, Method] = {}
    codes = dict.fromkeys(map(language_code, _tested(task)))
    for path in paths:
        method = Method.saved(Transform.load(path))
        if any((method.label, method.seed, method.source) == (m.label, m.seed, m.source) for m in saved.values()):
            raise ValueError(f"{path} is the method {method.label!r}, as another --saved file is; omit one")
        saved[path] = method
        lacking = [code for code in codes if not method.takes(code)]
        some = "en" not in lacking and len(lacking) < len(codes) - 1
        fix = "omit the file, or test languages that it was fitted on"
        _check_lacking(task, f"{path} was not fitted on", lacking, some, fix, "its rows leave them out")
    return saved


def _check_text(task: Task, place: str, text: Mapping[str, Sequence[str]]) -> None:
    """Checks that the text has the languages of the task, or says which it lacks if the task allows that."""
    lacking = [code for code in task.languages if code not in text]
    fix = "text in English and in another language is needed" if task.some else "omit these languages"
    then = "transforms are not fitted on these languages, nor tested on them if they depend on the language"
    _check_lacking(task, f"--fit-on {place} has no text in", lacking, len(text) > 1 and "en" in text, fix, then)


def _pairs(task: Task, options: FitOptions) -> dict[str, list[Pair]]:
    """The parallel text in the tested languages that it has; empty if no method is fitted on pairs."""
    if options.parallel is None or not set(options.transforms) & OF_PAIRS.keys():
        return {}
    bitext = read_bitext(options.parallel, (), "--parallel")
    codes = [code for code in dict.fromkeys(task.languages) if code != "en"]
    pairs = {code: bitext[code][: options.fit_count] for code in codes if bitext.get(code)}
    lacking = [code for code in codes if code not in pairs]
    fix = f"it has {', '.join(bitext)}; test these, or omit the methods linear and shift"
    then = "no map is tested on these"
    _check_lacking(task, f"--parallel {options.parallel} has no pairs of", lacking, bool(pairs), fix, then)
    return pairs


def _check_lacking(task: Task, what: str, lacking: Sequence[str], some: bool, fix: str, then: str) -> None:
    """Says which languages are lacking, and what then; raises ValueError if all are, or the task needs all."""
    if lacking and not (task.some and some):
        raise ValueError(f"{what} {', '.join(lacking)}; {fix}")
    if lacking:
        console.print(f"{what} {', '.join(lacking)}: {then}")
