"""``explore``: one page to look at embeddings before and after transforms of any rank."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.arrays import check_floats
from lsar_jax.checks import check_flags, whole_number, whole_numbers
from lsar_jax.corpora.text_rules import shortened
from lsar_jax.encoders.progress import Meter
from lsar_jax.extras import import_extra
from lsar_jax.languages import canonical_keys
from lsar_jax.measures.compared_methods import Method
from lsar_jax.options.user_text import UserText
from lsar_jax.report.explorer_page import Explorer, look_of_language
from lsar_jax.report.measured import ByLanguage, Measured, Neighbours, Pool, in_threads
from lsar_jax.report.page_kit import Usage, packed
from lsar_jax.report.planes import Plane, flat, language_plane
from lsar_jax.report.sliders import BETWEEN, at_ranks, fit_layers, options_of, ranks_of, slides
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.tokenizer import check_sentences
from lsar_jax.transforms.methods import METHODS, SUMMARIES

__all__ = ["Explorer", "explore"]

# Characters of a sentence that the page shows.
_SHOWN = 300
# A page with more sentences has five neighbours of each, and measures strengths with so many queries.
_MANY = 2000
# Lists of neighbours of so many that a page of five megabytes has room for: at each layer, those before, and after each
# method and each rank of its slider.
_STATES = 50


def explore(
    x: Mapping[str, Float[AnyArray, "*layer _ dim"]],
    texts: Mapping[str, Sequence[str]],
    *,
    layers: Sequence[int | str] = (),
    units: Mapping[str, Sequence[int] | Int[AnyArray, " _"]] | None = None,
    methods: Sequence[str] | None = None,
    count: int = 2000,
    tsne: bool = False,
    title: str = "Language in embeddings",
    show_progress: bool = False,
) -> Explorer:
    """Makes a page to look at embeddings before and after transforms: a map, and the neighbours of each sentence.

    The page is one HTML file that loads nothing. In it, languages can be hidden, and the layer, the method and the rank
    of the removed subspace can be chosen. The transforms are fitted on all of ``x``. For 2,000 sentences at two layers,
    the page has about 5 MB; of many ranks, or at many layers, it has fewer, evenly spaced. With more sentences, it has
    the five nearest of each, and fewer ranks.

    Args:
      x: language -> raw embeddings ``[n, dim]``, or of several layers ``[layer, n, dim]``; at least two languages.
      texts: language -> the n sentences; the first 300 characters of each are shown.
      layers: names of the layers of ``x``, needed if it has several.
      units: language -> a number for each sentence; sentences of one number are translations of each other. Of texts
        whose lines are aligned: ``{code: range(n) for code in x}``.
      methods: names of ``lsar-jax fit``; by default, those that can be fitted on ``x``.
      count: number of sentences on the page, as many of each language and drawn at random, translations together.
      tsne: whether to draw t-SNE, too, for which scikit-learn is needed and seconds to minutes.
      title: title of the page.
      show_progress: whether to say how far it is.

    Returns:
      A page, which a notebook shows; ``save`` writes it to a file.

    Raises:
      ValueError: the languages, sentences, layers or units do not fit together, a sentence has a lone surrogate, a
        method is unknown, or the means of the languages do not differ at a layer.
      ImportError: a package of the extra ``report`` is not installed.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(30, 16)) + 5 * rng.normal(size=16) for code in ("de", "en", "fr")}
      >>> texts = {code: [f"sentence {i}" for i in range(30)] for code in x}
      >>> lj.explore(x, texts, units={code: range(30) for code in x}).about
      '90 sentences in 3 languages, 1 layer'
    """
    check_flags(tsne=tsne, show_progress=show_progress)
    by_layer, names = _by_layer(x, layers)
    text = _text(texts, units, {code: len(rows) for code, rows in by_layer[0].items()})
    if methods is not None and (isinstance(methods, str) or not {*methods} or {*methods} - {*METHODS}):
        raise ValueError(f"methods is {methods!r}; give a list of some of {', '.join(METHODS)}")
    count = whole_number("count", count, 2 * len(text.codes), 65_535, "at least two sentences of each language")
    rows = _drawn(text, count)
    language = np.repeat(np.arange(len(rows)), [len(sample) for sample in rows.values()])
    unit = np.concatenate([text.units[code][sample] for code, sample in rows.items()]) if text.aligned else None
    pool = Pool(language, unit, 10 if len(language) <= _MANY else 5)
    pools = import_extra("threadpoolctl", "report", "the explorer")
    # BLAS's threads wait for each other without sleeping, which on processors that are in use takes most of the time.
    states = _STATES * _MANY // max(_MANY, len(language)) // len(by_layer)
    with pools.threadpool_limits(1, "blas"), Meter(show_progress) as meter:
        fitted = fit_layers(by_layer, names, methods)
        shown = []
        for number, (name, embedded) in enumerate(zip(names, by_layer, strict=True)):
            spec = EncoderSpec("x", "", number, "", "")  # only its name is known
            part = {code: vectors[rows[code]] for code, vectors in embedded.items()}
            advance = partial(_advance, meter, number, len(names))
            layer = _layer(part, spec, fitted[number], pool, states, tsne, advance)
            shown.append({"name": str(name)} | layer)
    data = {
        "languages": text.codes, "language": language.tolist(), "unit": None if unit is None else unit.tolist(),
        "texts": [shortened(text.sentences[code][row], _SHOWN) for code, sample in rows.items() for row in sample],
        "looks": [{"colour": colour, "marker": marker} for colour, marker in map(look_of_language, range(len(rows)))],
        "fair": pool.fair, "k": pool.k, "layers": shown,
        "summaries": {entry.name: SUMMARIES.get(entry.name, "") for entry in fitted[0]},
    }  # fmt: skip
    stacked = np.ndim(next(iter(x.values()))) == 3
    reading = Usage().reading + "\nx = {code: rows[{number}] for code, rows in x.items()}" * stacked
    return Explorer(title, data, Usage(reading=reading))


def _layer(
    x: ByLanguage, spec: EncoderSpec, methods: Sequence[Method], pool: Pool, states: int, tsne: bool,
    advance: Callable[[float], object],
) -> dict[str, Any]:  # fmt: skip
    """Returns the data of a layer, in JSON's types: for each method and rank, lists of neighbours, shares and a map."""
    sliders = sum(map(slides, methods))
    most = max((states - 1 - len(methods) + sliders) // max(sliders, 1), 2)
    measured: list[Measured] = []
    planes: list[Plane] = []
    written: list[dict[str, Any]] = []
    states_of: list[dict[str, Any]] = []
    every = [Method("original", {}), *methods]
    part = 0.1 if tsne else 1.0  # of the time
    sample = slice(None, None, -(-len(pool.language) // _MANY))

    def moved(of: Method) -> Float[np.ndarray, "sentence dim"]:
        return np.concatenate([*of.transform_languages(x).values()])

    def found(of: Method, few: slice = slice(None)) -> tuple[Float[np.ndarray, "sentence dim"], Neighbours]:
        y = moved(of)
        return y, pool.search(y, few)

    for number, method in enumerate(every):
        ranks, plane = ranks_of(method, most), None
        written.append({"name": method.name, "ranks": ranks, "first": len(measured), "options": options_of(method)})
        variants = at_ranks(method, ranks)
        for at_rank, (y, near) in zip(variants, in_threads(found, variants), strict=True):
            measured.append(Measured(spec, at_rank, [near]))
            plane, variance = language_plane(y, pool.language, plane)  # turned towards the last rank's
            planes.append(plane)
            by_language = {"own_of": pool.by_language(near.own), "found_of": pool.by_language(near.found)}
            states_of.append(_shares(near) | by_language | {"variance": variance})
            advance(part * (number + (len(measured) - written[-1]["first"]) / len(variants)) / len(every))
        written[-1] |= {"by_language": measured[-1].needs_language, "one_map": method.one_map}
        if measured[-1].moves:
            between = in_threads(partial(found, few=sample), method.at_strengths(BETWEEN))
            written[-1]["strengths"] = [states_of[0], *(_shares(near) for _, near in between), states_of[-1]]
    drawn = flat(
        {of.label: moved(of) for of in every} if tsne else {}, lambda share: advance(part + (1 - part) * share)
    )
    lists = [entry.parts[0] for entry in measured]
    return {
        "methods": written[1:],
        "states": states_of,
        # A sentence's lists stand beside each other: those of near ranks and methods are alike, and take little space.
        "near": packed(np.stack([near.rows for near in lists], axis=1)),
        "cosines": packed(np.rint(100 * np.stack([near.cosines for near in lists], axis=1))),
        "planes": packed(np.stack([*map(_in_12_bits, planes)])),
        "tsne": packed(np.stack([*map(_in_12_bits, drawn.values())])) if tsne else "",
    }


def _advance(meter: Meter, layer: int, layers: int, share: float) -> None:
    meter("measuring neighbours and maps", layer + share, layers)


def _shares(near: Neighbours) -> dict[str, Any]:
    """The shares of neighbours of all sentences, in JSON's types."""
    found = near.found[~np.isnan(near.found)]
    return {"own": float(near.own.mean()), "found": float(found.mean()) if len(found) else None}


def _in_12_bits(plane: Plane) -> Float[np.ndarray, "sentence 2"]:
    """A plane whose places have whole numbers of at most 2,047: a quarter of a pixel on a map of a thousand."""
    return np.rint(plane * (2047 / (np.abs(plane).max() or 1)))


def _by_layer(
    x: Mapping[str, AnyArray], layers: Sequence[int | str]
) -> tuple[list[dict[str, np.ndarray]], list[int | str]]:
    """The embeddings of each layer by language, in alphabetical order, and the names of the layers."""
    if not isinstance(x, Mapping) or len(x) < 2:
        raise ValueError("x must be a mapping from at least two languages to embeddings")
    arrays = {code: value[None] if value.ndim == 2 else value for code, value in _arrays(x).items()}
    shapes = {code: value.shape for code, value in arrays.items()}
    depths = {shape[0] if len(shape) == 3 else 0 for shape in shapes.values()}
    if len(depths) > 1 or 0 in depths:
        raise ValueError(f"x has the shapes {shapes}; expected [n, dim] of all, or [layer, n, dim] of as many layers")
    [depth] = depths
    names = list(layers) or ([""] if depth == 1 else [])
    if len(names) != depth or len({*map(str, names)}) < depth:
        raise ValueError(f"layers is {tuple(layers)}; give a different name for each of the {depth} layers of x")
    for code, array in arrays.items():
        check_floats(code, array[0], 2)
    return [{code: array[at] for code, array in arrays.items()} for at in range(depth)], names


def _arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {code: np.asarray(value) for code, value in canonical_keys(values).items()}


def _text(texts: Mapping[str, Sequence[str]], units: Mapping[str, Any] | None, counts: Mapping[str, int]) -> UserText:
    """The sentences of each language, as many as its embeddings; aligned if there are units."""
    sentences = {code: list(text) for code, text in canonical_keys(texts).items()}
    for code in counts.keys() | sentences.keys():
        if len(sentences.get(code, ())) != counts.get(code, 0):
            raise ValueError(
                f"texts has {len(sentences.get(code, ()))} sentences in {code}, and x {counts.get(code, 0)} vectors"
            )
        check_sentences(sentences[code], what=f"{code}: sentence")
    text = UserText(sentences, {}, {}, False).not_aligned()
    if units is None:
        return text
    given = _arrays(units)
    checked = {
        code: whole_numbers(f"units of {code}", given.get(code, np.zeros(0)), n, 0) for code, n in counts.items()
    }
    return replace(text, units=checked, aligned=True)


def _drawn(text: UserText, count: int) -> dict[str, Int[np.ndarray, " _"]]:
    """Each language's sampled rows, in their order: the first ones in a random order of the units."""
    rng = np.random.default_rng(0)
    if text.aligned:
        place = text.order(0)
    else:
        place = {code: rng.permutation(len(sentences)) for code, sentences in text.sentences.items()}
    most = count // len(place)
    return {code: np.sort(np.argsort(places, kind="stable")[:most]) for code, places in place.items()}
