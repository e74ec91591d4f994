"""``explore``: one page to look at embeddings before and after transforms of any rank."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.arrays import check_floats
from lsar_jax.checks import check_flags, whole_number
from lsar_jax.extras import import_extra
from lsar_jax.languages import canonical_keys
from lsar_jax.measures.methods import Method, fit_methods
from lsar_jax.moments import moments_by_language, stack_means
from lsar_jax.report.explorer_page import Explorer, look_of_language
from lsar_jax.report.marks import Plane
from lsar_jax.report.neighbours import ByLanguage, Neighbours, Pool, spanned_rank
from lsar_jax.report.page_kit import packed
from lsar_jax.report.planes import flat, language_plane
from lsar_jax.report.usage_code import Usage
from lsar_jax.shapes import AnyArray
from lsar_jax.tokens.tokenizer import check_sentences
from lsar_jax.transforms.base import Step
from lsar_jax.transforms.methods import METHODS, by_default

__all__ = ["Explorer", "explore"]

_log = logging.getLogger("lsar_jax")

# Those with a slider first.
DEFAULT_METHODS = tuple(sorted(by_default("explorer"), key=lambda name: METHODS[name].varied != "rank"))

# Characters of a sentence that the page shows.
_SHOWN = 300
# Lists of neighbours of 2,000 sentences that a page of five megabytes has room for: at each layer, those before, and
# after each method and each rank of its slider.
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
) -> Explorer:
    """Makes a page to look at embeddings before and after transforms: a map, and the neighbours of each sentence.

    The page is one HTML file that loads nothing. In it, languages can be hidden, and the layer, the method and the rank
    of the removed subspace can be chosen. The transforms are fitted on all of ``x``. For 2,000 sentences at two layers,
    the page has about 5 MB; of many ranks, or at many layers, it has fewer, evenly spaced.

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
    check_flags(tsne=tsne)
    by_layer, names = _by_layer(x, layers)
    codes = list(by_layer[0])
    sentences = _sentences(texts, {code: len(rows) for code, rows in by_layer[0].items()})
    numbers = _units(units, sentences)
    if methods is not None:
        _check_methods(methods)
    count = whole_number("count", count, 2 * len(codes), 65_535, "at least two sentences of each language")
    chosen = _drawn(numbers, sentences, count)
    language = np.repeat(np.arange(len(codes)), [len(rows) for rows in chosen.values()])
    unit = None if numbers is None else np.concatenate([numbers[code][rows] for code, rows in chosen.items()])
    pool = Pool(language, unit)
    pools = import_extra("threadpoolctl", "report", "the explorer")
    # BLAS's threads wait for each other without sleeping, which on processors that are in use takes most of the time.
    with pools.threadpool_limits(1, "blas"):
        fitted = _fit_layers(by_layer, names, methods)
        shown = [
            _layer(
                {code: rows[chosen[code]] for code, rows in of.items()}, of_layer, pool, _STATES // len(by_layer), tsne
            )
            for of, of_layer in zip(by_layer, fitted, strict=True)
        ]
    data = {
        "languages": codes, "language": language.tolist(), "unit": None if unit is None else unit.tolist(),
        "texts": [_shortened(sentences[code][row]) for code, rows in chosen.items() for row in rows],
        "looks": [{"colour": colour, "marker": marker} for colour, marker in map(look_of_language, range(len(codes)))],
        "fair": pool.fair, "k": pool.k, "summaries": {of.name: METHODS[of.name].summary for of in fitted[0]},
        "layers": [{"name": str(name)} | layer for name, layer in zip(names, shown, strict=True)],
    }  # fmt: skip
    stacked = np.ndim(next(iter(x.values()))) == 3
    reading = Usage().reading + "\nx = {code: rows[{number}] for code, rows in x.items()}" * stacked
    return Explorer(title, data, Usage(reading=reading))


class _View(NamedTuple):
    """The sentences after a method at a rank: their neighbours, and the map with its share of the variance."""

    neighbours: Neighbours
    plane: Plane
    variance: float


def _layer(x: ByLanguage, methods: Sequence[Method], pool: Pool, states: int, tsne: bool) -> dict[str, Any]:
    """Returns the data of a layer, in JSON's types: for each method and rank, lists of neighbours, shares and a map."""
    sliders = sum(map(_slides, methods))
    most = max((states - 1 - len(methods) + sliders) // max(sliders, 1), 2)
    original = Method("original", {})
    views = _views(x, original, [None], pool)
    written: list[dict[str, Any]] = []
    for method in methods:
        ranks = _ranks(method, most)
        by_language = method.transform is not None and method.transform.languages is not None
        written.append({"name": method.name, "ranks": None if ranks == [None] else ranks, "first": len(views)})
        written[-1] |= {"by_language": by_language, "options": _options(method)}
        views += _views(x, method, ranks, pool)
    drawn = flat({of.label: _transformed(of, x) for of in (original, *methods)}) if tsne else {}
    return {
        "methods": written,
        "states": [_shares(pool, of.neighbours) | {"variance": of.variance} for of in views],
        # A sentence's lists stand beside each other: those of near ranks and methods are alike, and take little space.
        "near": packed(np.stack([of.neighbours.rows for of in views], axis=1)),
        "cosines": packed(np.rint(1000 * np.stack([of.neighbours.cosines for of in views], axis=1))),
        "planes": packed(np.stack([_in_12_bits(of.plane) for of in views])),
        "tsne": packed(np.stack([_in_12_bits(plane) for plane in drawn.values()])) if tsne else "",
    }


def _views(x: ByLanguage, method: Method, ranks: Sequence[int | None], pool: Pool) -> list[_View]:
    """Transforms the sentences at each rank, and finds their neighbours; each map is turned towards the last."""
    views: list[_View] = []
    for rank in ranks:
        y = _transformed(method if rank is None else _at_rank(method, rank), x)
        views.append(_View(pool.search(y), *language_plane(y, pool.language, views[-1].plane if views else None)))
    return views


def _transformed(method: Method, x: ByLanguage) -> Float[np.ndarray, "sentence dim"]:
    return np.concatenate(list(method.transform_languages(x).values()))


def _ranks(method: Method, most: int) -> list[Any]:
    """The ranks of the slider, of many ranks evenly spaced ones; a method without one has a single state."""
    if not _slides(method):
        return [None]
    top = int(method.parameters["rank"])
    return np.unique(np.linspace(0, top, min(most, top + 1)).round().astype(int)).tolist()


def _shares(pool: Pool, near: Neighbours) -> dict[str, Any]:
    """The shares of neighbours of all sentences and by language, in JSON's types."""
    result: dict[str, Any] = {}
    for name, shares in (("own", near.own), ("found", near.found)):
        known = shares[~np.isnan(shares)]
        result[name] = float(known.mean()) if len(known) else None
        result[f"{name}_of"] = [None if np.isnan(share) else round(share, 3) for share in pool.by_language(shares)]
    return result


def _slides(method: Method) -> bool:
    """Whether the first directions of a fit are those of a lower rank, which is not so in variants of a method."""
    return METHODS[method.name].varied == "rank" and not METHODS[method.name].fixed


def _at_rank(method: Method, rank: int) -> Method:
    """The method that removes only the first directions; the others become zero, so that all ranks share a program."""
    assert method.transform is not None
    steps = []
    for step in method.transform.steps:
        assert isinstance(step, Step), "methods with a rank have these steps"
        bases = {name: np.asarray(part) for name, part in step.arrays().items() if name in ("basis", "dual")}
        steps.append(step._replace(**{name: part * (np.arange(part.shape[-1]) < rank) for name, part in bases.items()}))
    return replace(method, transform=replace(method.transform, steps=tuple(steps)))


def _fit_layers(
    by_layer: Sequence[ByLanguage], names: Sequence[int | str], given: Sequence[str] | None
) -> list[list[Method]]:
    """Fits each method at each layer, at its highest rank; without given names, those that can be at every layer."""
    fitted: list[dict[str, Method]] = []
    for x, layer in zip(by_layer, names, strict=True):
        methods = DEFAULT_METHODS if given is None else given
        second = any(METHODS[name].needs in ("pooled", "languages") for name in methods)
        moments = moments_by_language(x, least=2, second_moment=second)
        top = spanned_rank(stack_means(moments))
        if not top:
            raise ValueError(f"the means of {', '.join(moments)} do not differ at layer {layer}; leave it out")
        fitted.append({})
        for name in methods:
            try:
                [fitted[-1][name]] = fit_methods(
                    x, (name,), {"rank": (top,), "seed": (0,)}, source=None, moments=moments
                )
            except ValueError as error:
                where = f" at layer {layer}" if layer != "" else ""
                if given is not None:
                    raise ValueError(f"{name} cannot be fitted{where}: {error}; leave it out of the methods") from error
                _log.warning("the page is without %s, which cannot be fitted%s: %s", name, where, error)
    common = [name for name in fitted[0] if all(name in of for of in fitted)]
    return [[of[name] for name in common] for of in fitted]


def _options(method: Method) -> dict[str, Any]:
    """The options of ``lsar-jax fit`` that fit it; the page fills in the rank."""
    varied = METHODS[method.name].varied
    if _slides(method):
        return {"rank": "{rank}"}
    return {varied: method.parameters[varied]} if varied in ("rank", "seed") else {}


def _in_12_bits(plane: Plane) -> Float[np.ndarray, "sentence 2"]:
    """A plane whose places have whole numbers of at most 2,047: a quarter of a pixel on a map of a thousand."""
    return np.rint(plane * (2047 / (np.abs(plane).max() or 1)))


def _by_layer(
    x: Mapping[str, AnyArray], layers: Sequence[int | str]
) -> tuple[list[dict[str, np.ndarray]], list[int | str]]:
    """The embeddings of each layer by language, in alphabetical order, and the names of the layers."""
    if not isinstance(x, Mapping) or len(x) < 2:
        raise ValueError("x must be a mapping from at least two languages to embeddings")
    arrays = {code: np.asarray(value) for code, value in canonical_keys(x).items()}
    depths = {code: 1 if value.ndim < 3 else len(value) for code, value in arrays.items()}
    if len({*depths.values()}) > 1 or any(value.ndim not in (2, 3) for value in arrays.values()):
        shapes = {code: value.shape for code, value in arrays.items()}
        raise ValueError(f"x has the shapes {shapes}; expected [n, dim] of all, or [layer, n, dim] of as many layers")
    depth = next(iter(depths.values()))
    names = list(layers) or ([""] if depth == 1 else [])
    if len(names) != depth or len({*map(str, names)}) < depth:
        raise ValueError(f"layers is {tuple(layers)}; give a different name for each of the {depth} layers of x")
    by_layer = [{code: a[at] if a.ndim == 3 else a for code, a in arrays.items()} for at in range(depth)]
    for of in by_layer:
        for code, rows in of.items():
            check_floats(code, rows, 2)
    return by_layer, names


def _sentences(texts: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, list[str]]:
    """The sentences of each language, as many as its embeddings."""
    given = {code: list(text) for code, text in canonical_keys(texts).items()}
    if given.keys() != counts.keys():
        raise ValueError(
            f"texts has the languages {', '.join(given)}, and x {', '.join(counts)}; they must be the same"
        )
    for code, text in given.items():
        if len(text) != counts[code]:
            raise ValueError(f"texts has {len(text)} sentences in {code}, and x {counts[code]} vectors")
        check_sentences(text, what=f"{code}: sentence")
    return given


def _units(
    units: Mapping[str, Sequence[int] | Int[AnyArray, " _"]] | None, sentences: Mapping[str, Sequence[str]]
) -> dict[str, Int[np.ndarray, " _"]] | None:
    """The unit of each sentence by language."""
    if units is None:
        return None
    given = {code: np.asarray(of) for code, of in canonical_keys(units).items()}
    for code, text in sentences.items():
        of = given.get(code, np.zeros(0, int))
        if of.shape != (len(text),) or of.dtype.kind not in "iu" or (of < 0).any():
            raise ValueError(f"units of {code}: expected {len(text)} whole numbers from 0, one for each sentence")
    return given


def _check_methods(methods: Sequence[str]) -> None:
    choices = f"choose among {', '.join(METHODS)}"
    if isinstance(methods, str) or not methods or len({*methods}) < len(methods):
        raise ValueError(f"methods is {methods!r}; give a list of different names; {choices}")
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"there is no method {name!r}; {choices}")


def _drawn(
    units: Mapping[str, Int[np.ndarray, " _"]] | None, sentences: Mapping[str, Sequence[str]], count: int
) -> dict[str, Int[np.ndarray, " _"]]:
    """The rows on the page, in their order; of each language, the first in a random order of the units."""
    rng = np.random.default_rng(0)
    if units is None:
        place = {code: rng.permutation(len(text)) for code, text in sentences.items()}
    else:
        order = rng.permutation(1 + max(int(of.max()) for of in units.values()))
        place = {code: order[of] for code, of in units.items()}
    most = count // len(sentences)
    return {code: np.sort(np.argsort(of, kind="stable")[:most]) for code, of in place.items()}


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
