"""``explore``: fits the transforms, measures each rank, and puts what a page needs to compute with into it."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from lsar_jax.arrays import check_floats
from lsar_jax.checks import check_flags, whole_number
from lsar_jax.explorer.measures import COMPARED, Neighbours, compare, map_axes, measure, tsne_plane
from lsar_jax.explorer.page import LIMIT, SENTENCES, Explorer, as_page, bytes_of_page, packed
from lsar_jax.explorer.space import first_columns, in_basis, move, reduce, spanned
from lsar_jax.extras import import_extra
from lsar_jax.languages import canonical_keys
from lsar_jax.moments import moments_by_language, pool_moments, stack_means
from lsar_jax.retrieval.preference import fair_share
from lsar_jax.retrieval.search import nearest_others
from lsar_jax.shapes import AnyArray
from lsar_jax.tokens.tokenizer import check_sentences
from lsar_jax.transforms import language_subspace
from lsar_jax.transforms.methods import METHODS, by_default
from lsar_jax.transforms.methods.lsar import significant_values

__all__ = ["DEFAULT_METHODS", "explore"]

_log = logging.getLogger("lsar_jax")

# Those with a slider first.
DEFAULT_METHODS = tuple(sorted(by_default("explorer"), key=lambda name: METHODS[name].varied != "rank"))

# The parts of a step that keep what they do not subtract, which the page can apply to coordinates of an own basis.
_LOW_RANK = {"shift", "basis", "dual", "offset"}
# Characters of a sentence that the page shows.
_SHOWN = 300
# Dimensions below which the page has no room for methods that are computed here: neighbours of others would suffer.
_LEAST = 128


class _Method(NamedTuple):
    """A fitted method: its steps, and the highest rank of its slider; None without a slider."""

    name: str
    steps: tuple[Any, ...]
    top: int | None
    by_language: bool
    options: dict[str, Any]

    @property
    def low_rank(self) -> bool:
        """Whether the page can apply the steps; what it shows of other methods is computed here."""
        return {name for step in self.steps for name in step.arrays()} <= _LOW_RANK

    def at(self, rank: int) -> tuple[Any, ...]:
        """The steps at a rank."""
        return self.steps if self.top is None else first_columns(self.steps, rank)

    @property
    def ranks(self) -> range:
        """The ranks of the slider; a method without one has a single state."""
        return range(1) if self.top is None else range(self.top + 1)


def explore(
    x: Mapping[str, Float[AnyArray, "*layer _ dim"]],
    texts: Mapping[str, Sequence[str]],
    *,
    layers: Sequence[int | str] = (),
    units: Mapping[str, Sequence[int] | Int[AnyArray, " _"]] | None = None,
    methods: Sequence[str] | None = None,
    count: int = 2000,
    tsne: bool = False,
    seed: int = 0,
    title: str = "Language in embeddings",
    fit_options: str = "",
    reading: str = "",
    opening: str = "",
    encode_options: str = "",
) -> Explorer:
    """Makes a page to look at embeddings before and after transforms: a map, and the neighbours of each sentence.

    The page is one HTML file that loads nothing. In it, languages can be hidden, and the layer, the method and the rank
    of the removed subspace can be chosen; the map and the neighbours are computed there. Those of methods that do more
    than subtract, such as whitening and CBIE, are computed here, and so are the shares of neighbours over all sentences
    of every method. The transforms are fitted on all of ``x``. For 2,000 sentences, the page has at most 5 MB, and says
    how close its own cosines are to those of whole vectors. Methods that would need more are left out, with a warning.

    Args:
      x: language -> raw embeddings ``[n, dim]``, or of several layers ``[layer, n, dim]``; at least two languages.
      texts: language -> the n sentences; the first 300 characters of each are shown.
      layers: names of the layers of ``x``, needed if it has several.
      units: language -> a number for each sentence; sentences of one number are translations of each other. Of texts
        whose lines are aligned: ``{code: range(n) for code in x}``.
      methods: names of ``lsar-jax fit``; by default, those that can be fitted on ``x``.
      count: number of sentences on the page, as many of each language and drawn at random, translations together.
      tsne: whether to draw t-SNE, too, for which scikit-learn is needed and seconds to minutes.
      seed: seed of the draw, of CBIE and of t-SNE.
      title: title of the page.
      fit_options: options with which ``lsar-jax fit`` reads the same sentences, for the command on the page, which adds
        ``--layer`` if layers have names; by default, the page has Python in place of a command.
      reading: that Python, which makes ``x`` at ``{layer}``, which the page fills in, and ``encoder`` if there is an
        ``opening``; by default, ``x`` is at hand.
      opening: Python that loads the encoder at ``{layer}``, for the code on the page; by default, that code transforms
        vectors.
      encode_options: what this code passes to ``encode``, such as ``max_length=128`` and ``language={language}``.

    Returns:
      A page, which a notebook shows; ``save`` writes it to a file.

    Raises:
      ValueError: the languages, sentences, layers or units do not fit together, a sentence has a lone surrogate, a
        method is unknown, the means of the languages do not differ at a layer, or 5 MB have no room for one method.
      ImportError: Bokeh or threadpoolctl, or scikit-learn for t-SNE, is not installed.

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
    count = whole_number("count", count, 2 * len(codes), 1_000_000, "at least two sentences of each language")
    chosen = _drawn(numbers, sentences, count, seed)
    counts = [len(rows) for rows in chosen.values()]
    unit = None if numbers is None else np.concatenate([numbers[code][rows] for code, rows in chosen.items()])
    language = np.repeat(np.arange(len(codes)), counts)
    shown = [_shortened(sentences[code][row]) for code, rows in chosen.items() for row in rows]
    data: dict[str, Any] = {"languages": codes, "language": language.tolist(), "texts": shown, "title": title}
    data["unit"] = None if unit is None else np.unique(unit, return_inverse=True)[1].tolist()
    neighbours = Neighbours(language, unit)
    data |= {"expected": fair_share(np.array(counts)), "neighbours": neighbours.k, "layers": []}
    data |= {"compared": min(COMPARED, len(language)), "stacked": np.ndim(next(iter(x.values()))) == 3}
    data |= {"words": {name: method.summary for name, method in METHODS.items()}}
    data |= {"fit": fit_options, "reading": reading, "opening": opening, "encode": encode_options}
    pools = import_extra("threadpoolctl", "explore", "the explorer")
    import_module("scipy.linalg")  # has a BLAS of its own, and the limit holds for those that are loaded
    # BLAS's threads wait for each other without sleeping, which on processors that are in use takes most of the time.
    with pools.threadpool_limits(1, "blas"):
        fitted = [_fit(of, methods, name, seed) for of, name in zip(by_layer, names, strict=True)]
        fitted, form = _fit_on_page(data, fitted, by_layer[0][codes[0]].shape[1], tsne)
        for name, of, known in zip(names, by_layer, fitted, strict=True):
            rows = np.concatenate([np.asarray(of[code], np.float64)[chosen[code]] for code in codes])
            layer = _layer(rows, known, counts, form, neighbours, seed if tsne else None)
            data["layers"].append({"name": str(name)} | layer)
    return as_page(data)


def _layer(
    x: Float[np.ndarray, "sentence dim"],
    methods: Sequence[_Method],
    counts: Sequence[int],
    form: tuple[int, type],
    neighbours: Neighbours,
    seed: int | None,
) -> dict[str, Any]:
    """What the page has of a layer: the coordinates, the methods in them, and the shares at each rank."""
    space = reduce(x, [step for method in methods if method.low_rank for step in method.steps], *form)
    differences, drawn = [compare(x, space.z, space.residual, neighbours.k)], []
    written: list[dict[str, Any]] = []
    if seed is not None:
        drawn.append(tsne_plane(x, seed))
    for method in methods:
        names = ("name", "top", "by_language", "options")
        of_method: dict[str, Any] = {name: getattr(method, name) for name in names}
        if not method.low_rank:
            y = move(method.steps, x, counts)
            written.append(of_method | {"steps": [], "states": [_state(y, neighbours)]})
            if seed is not None:
                drawn.append(tsne_plane(y, seed))
            continue
        inside = tuple(in_basis(step, space.basis) for step in method.steps)
        states, last = [], None
        for rank in method.ranks:
            y = move(method.at(rank), x, counts)
            centred = y - y.mean(axis=0)
            z = centred @ space.basis
            axes = map_axes(z, neighbours.language, last)
            last = z @ axes
            variance = float((last**2).sum() / max((centred**2).sum(), np.finfo(float).tiny))
            states.append({"axes": packed(axes), "variance": variance} | _shares(y, neighbours))
            steps = inside if method.top is None else first_columns(inside, rank)
            differences.append(compare(y, move(steps, space.z, counts), space.residual, neighbours.k))
        if seed is not None:
            drawn.append(tsne_plane(y, seed))
        parts = [{key: packed(part) for key, part in step._asdict().items() if part is not None} for step in inside]
        written.append(of_method | {"steps": parts, "states": states})
    return {
        "dim": x.shape[1],
        "width": space.values.shape[1],
        "values": packed(space.values),
        **{name: packed(getattr(space, name)) for name in ("center", "scale", "residual")},
        "difference": max(largest for largest, _ in differences),
        "agreement": min(same for _, same in differences),
        "before": _shares(x, neighbours),
        "methods": written,
        "tsne": [packed(plane) for plane in drawn],
    }


def _state(y: Float[np.ndarray, "sentence dim"], neighbours: Neighbours) -> dict[str, Any]:
    """What the page has of embeddings that it cannot compute: the map, the neighbours of each sentence, the shares."""
    centred = y - y.mean(axis=0)
    plane = centred @ map_axes(centred, neighbours.language, None)
    variance = float((plane**2).sum() / max((centred**2).sum(), np.finfo(float).tiny))
    cosines, near = nearest_others(y.astype(np.float32), neighbours.k)
    rows = near.astype(np.int16 if len(y) <= 1 << 15 else np.int32)
    lists = {"near": packed(rows), "cosines": packed(cosines.astype(np.float64))}
    return {"plane": packed(plane), "variance": variance} | lists | measure(near, neighbours)._asdict()


def _shares(y: Float[np.ndarray, "sentence dim"], neighbours: Neighbours) -> dict[str, Any]:
    return measure(nearest_others(y.astype(np.float32), neighbours.k)[1], neighbours)._asdict()


def _fit(x: Mapping[str, AnyArray], names: Sequence[str] | None, layer: int | str, seed: int) -> list[_Method]:
    """Fits each method on the embeddings of a layer, at its highest rank; without names, all that can be."""
    all_of, names = names is None, names or DEFAULT_METHODS
    second = any(METHODS[name].needs in ("pooled", "languages") for name in names)
    moments = moments_by_language(x, least=2, second_moment=second)
    given: dict[str, Mapping[str, Any]] = {"means": moments, "languages": moments, "embeddings": x}
    if second:
        given["pooled"] = pool_moments(moments)
    means = stack_means(moments)
    _, values = language_subspace(means, 1)
    top = min(significant_values(values, means.shape, False), len(means) - 1)
    if not top:
        raise ValueError(f"the means of {', '.join(moments)} do not differ at layer {layer}; leave it out")
    fitted = []
    for name in names:
        method = METHODS[name]
        options: dict[str, Any] = {
            name: value for name, value in (("rank", top), ("seed", seed)) if name == method.varied
        }
        # A lower rank of lsar-published removes other directions than the first of a higher one.
        slides = method.varied == "rank" and not method.fixed
        try:
            transform = method(given[method.needs], **options)
        except ValueError as error:
            where = f" at layer {layer}" if layer != "" else ""
            if all_of:
                _log.warning("the page is without %s, which cannot be fitted%s: %s", name, where, error)
                continue
            raise ValueError(f"{name} cannot be fitted{where}: {error}; leave it out of the methods") from error
        steps = jax.tree.map(np.asarray, transform.steps)
        fitted.append(_Method(name, steps, top if slides else None, transform.languages is not None, options))
    return fitted


def _fit_on_page(
    data: Mapping[str, Any], fitted: Sequence[Sequence[_Method]], dim: int, tsne: bool
) -> tuple[list[list[_Method]], tuple[int, type]]:
    """The methods for which the page has room at every layer, and what ``_form`` says of them.

    If there is too little, those whose neighbours are computed here are left out first, and the last before others.
    """
    room = LIMIT * max(1, len(data["texts"]) // SENTENCES) - bytes_of_page(data)
    common = [of for of in fitted[0] if all(of.name in (other.name for other in methods) for methods in fitted)]
    names = [method.name for method in sorted(common, key=lambda method: not method.low_rank)]
    spans: dict[int, list[int]] = {}
    for kept in range(len(names), 0, -1):
        chosen = [[method for method in methods if method.name in names[:kept]] for methods in fitted]
        low_rank = [[step for method in methods if method.low_rank for step in method.steps] for methods in chosen]
        if len(low_rank[0]) not in spans:
            spans[len(low_rank[0])] = [len(spanned(np.ones((1, dim)), steps)) for steps in low_rank]
        least = 1 if all(method.low_rank for method in chosen[0]) else min(dim, _LEAST)
        if form := _form(data, chosen, spans[len(low_rank[0])], range(dim, least - 1, -1), room, tsne):
            if kept < len(names):
                _log.warning(
                    "the page is without %s, with which it would have more than %d MB; to see them, give fewer layers, "
                    "languages or sentences", ", ".join(names[kept:]), LIMIT // 10**6,
                )  # fmt: skip
            return chosen, form
    raise ValueError(
        f"a page of {len(data['texts'])} sentences in {len(data['languages'])} languages, at {len(fitted)} layers, "
        f"would have more than {LIMIT // 10**6} MB even with {names[0]} alone; give fewer layers, languages or "
        "sentences"
    )


def _form(
    data: Mapping[str, Any],
    fitted: Sequence[Sequence[_Method]],
    spans: Sequence[int],
    widths: range,
    room: int,
    tsne: bool,
) -> tuple[int, type] | None:
    """The first number of dimensions for which there is room, and the type of their integers; None if there is none.

    ``spans`` are the numbers of dimensions that the layers need at least, and ``widths`` begins with that of vectors.
    """
    count, languages, dim = len(data["texts"]), len(data["languages"]), widths.start
    of_dimension = []
    for methods in fitted:
        low_rank = [method for method in methods if method.low_rank]
        parts = [part for method in low_rank for step in method.steps for part in step if part is not None]
        states = sum(len(method.ranks) for method in low_rank)
        # Four bytes for a number of a step, a center or a scale, two for one of an axis; a state has 300 characters
        # besides, and 16 of each language, a part 100.
        of_dimension.append(4 * sum(part.size for part in parts) // dim + 4 * states + 8)
        room -= (300 + 16 * languages) * (1 + states) + 100 * len(parts) + 6 * count + 1000
        room -= 6 * count * (1 + len(methods)) if tsne else 0
        # Of a state that is computed here: two coordinates, ten rows and ten cosines of two bytes, or rows of four.
        of_other = 400 + 16 * languages + count * 4 * (44 if count <= 1 << 15 else 64) // 3
        room -= (len(methods) - len(low_rank)) * of_other
    for width, kind in ((dim, np.int16), *((width, np.int8) for width in widths)):
        values = count * np.dtype(kind).itemsize
        sizes = [max(width, span) * (number + values) for span, number in zip(spans, of_dimension, strict=True)]
        # Bytes are written with 64 characters.
        if sum(sizes) * 4 / 3 <= room:
            return width, kind
    return None


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
    units: Mapping[str, Int[np.ndarray, " _"]] | None, sentences: Mapping[str, Sequence[str]], count: int, seed: int
) -> dict[str, Int[np.ndarray, " _"]]:
    """The rows on the page, in their order; of each language, the first in a random order of the units."""
    rng = np.random.default_rng(seed)
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
