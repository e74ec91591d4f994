"""A step of an alignment: its batches, its programs, and that every way to compute it gives the same gradient."""

import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh
from lsar_jax.models.pooling import pool
from lsar_jax.models.projection import Dense, Projection
from lsar_jax.objectives import align
from lsar_jax.objectives.language_penalty import LanguageMeans, language_penalty
from lsar_jax.tokens.tokenizer import Specials
from tests.compilations import count_compilations
from tests.conftest import TINY
from train.align import exchange
from train.align.batches import ChunkSizes, batch_of, order_of
from train.align.examples import Examples
from train.align.options import AlignOptions
from train.align.steps import EncoderSteps, StepOptions
from train.encoder_parameters import WORDS, EncoderParts, take_apart

PAIRS, LONGEST = 12, 23
# Of a row, which holds two sentences or more.
WIDTH = 48
KEY = jax.random.key(3)
OPTIONS = {"dropout", "stay_close", "remat", "language_penalty"}


@pytest.fixture(scope="module")
def examples():
    """Pairs of many lengths, with one to five links each."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(7, LONGEST + 1, (PAIRS, 2))
    source, target = ([rng.integers(5, 60, n).astype(np.int32) for n in side] for side in lengths.T)
    links = [
        np.stack([rng.permutation(np.arange(1, n - 1))[:many] for n in pair], 1).astype(np.int32)
        for pair, many in zip(lengths, rng.integers(1, 6, PAIRS), strict=True)
    ]
    return Examples(source, target, links, np.arange(PAIRS, dtype=np.int32) % 2, ("de", "fr"))


def programs(devices=1, *, freeze_words=False, dtype="float32", projected=None, layer=1, **chosen):
    """The programs of a step with the first block of the tiny encoder, and the parameters to train."""
    mesh = data_mesh(jax.devices()[:devices])
    encoder = lj.load_encoder(str(TINY), layer=layer, mesh=mesh, dtype=dtype, param_dtype="float32")
    given = {name: chosen.pop(name) for name in OPTIONS & {*chosen}}
    options = AlignOptions(**{"dropout": 0.0, "stay_close": 1.0} | given)
    fixed = {"projected": 8, "layer": layer, "pooling": "mean", "specials": Specials(1, 1), "options": options}
    parts = take_apart(EncoderParts(encoder.model, projected), freeze_words)
    return EncoderSteps(parts, StepOptions(**fixed | chosen), optax.constant_schedule(1e-3), encoder.mesh), parts


def compared(examples, objective):
    """The examples as an objective takes them."""
    return replace(examples, links=None) if objective == "sentence" else examples


def close(found, expected):
    """Checks gradients against each other, each parameter's relative to its own largest."""
    most = max(np.abs(one).max() for one in jax.tree.leaves(expected))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=max(1e-5 * np.abs(other).max(), 1e-6 * most))


def moved(parameters):
    """Parameters some way from their start, where what keeps them close pulls."""
    leaves, tree = jax.tree.flatten(parameters)
    keys = jax.random.split(jax.random.key(7), len(leaves))
    pairs = zip(leaves, keys, strict=True)
    return tree.unflatten([x + 0.02 * jax.random.normal(key, x.shape, x.dtype) for x, key in pairs])


MODES = {
    "chunks": {"tokens": 96},
    "remat": {"tokens": 64, "remat": True},
    "devices": {"devices": 4},
    "three devices": {"devices": 3},
    "devices, chunks": {"tokens": 96, "devices": 4, "remat": True},
}


def gradient_of(examples, tokens=0, devices=1, width=WIDTH, **chosen):
    """The gradients of the first batch, by encoder and projector, and its terms, away from the start."""
    made, (_, trained, _) = programs(devices, **chosen)
    zeros = partial(jax.tree.map, jnp.zeros_like)
    made._adam = optax.GradientTransformation(zeros, lambda gradient, _, values: (zeros(values), gradient))
    rows = order_of(0, PAIRS, 8, 0, 1)[0].tolist()
    batch = batch_of(compared(examples, chosen["objective"]), rows, ChunkSizes(tokens, width, devices), 0)
    state, terms = made.step(made.init(trained, KEY)._replace(encoder=made.everywhere(moved(trained))), batch, KEY)
    return jax.device_get(state.optimizer), {name: float(value) for name, value in terms.items()}


def alone(sentences):
    """The token ids and the lengths of rows that hold one sentence each."""
    lengths = jnp.array([[len(ids)] for ids in sentences], jnp.int32)
    return jnp.array([np.pad(ids, (0, LONGEST - len(ids))) for ids in sentences], jnp.int32), lengths


@pytest.mark.parametrize("objective", ["strong", "sentence", "l2"])
def test_the_gradient_is_that_of_the_definition(examples, objective):
    """Against jax.grad of the losses of what the links name, in plain rows of each side."""
    projected, more = None, {}
    if objective == "sentence":
        more = {"language_penalty": 20.0, "languages": 3, "dim": 16}
        weight = np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32)
        projected = Projection([Dense(weight, np.zeros(16, np.float32), "tanh")])
    _, (skeleton, trained, frozen) = programs(objective=objective, projected=projected)
    found, terms = gradient_of(examples, objective=objective, stay_close=0.3, projected=projected, **more)
    rows = order_of(0, PAIRS, 8, 0, 1)[0].tolist()
    projector = align.init_projector(KEY, 32, 8) if objective == "strong" else None
    sides = [alone([side[row] for row in rows]) for side in (examples.source, examples.target)]

    def vectors(parameters, projector):
        """The two sides of what is compared."""
        model, layers = skeleton.filled({**parameters, **frozen})
        for number, (ids, lengths) in enumerate(sides):
            *_, states = model.hidden_states(ids, lengths)
            if objective == "sentence":
                yield layers(pool("mean", states, lengths, Specials(0, 0))[:, 0])
                continue
            linked = jnp.concatenate([states[at, examples.links[row][:, number]] for at, row in enumerate(rows)])
            yield linked if projector is None else align.project(projector, linked)

    def loss(parameters, projector):
        source, target = vectors(parameters, projector)
        losses = {"l2": align.l2_loss, "strong": align.strong_contrastive_loss, "sentence": align.weak_contrastive_loss}
        temperature = {"temperature": 0.05} if objective == "sentence" else {}
        parts = {objective: losses[objective](source, target, **temperature)}
        parts["parameter_drift"] = 0.3 * align.parameter_drift(parameters, trained)
        if objective == "sentence":
            both = jnp.concatenate([source, target])
            languages = jnp.append(jnp.zeros(8, jnp.int32), 1 + examples.language[rows])
            parts["language_penalty"] = 20 * language_penalty(both, LanguageMeans.start(3, 16).update(both, languages))
        return sum(parts.values()), parts

    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    (_, values), gradients = gradient(moved(trained), projector)
    assert terms == pytest.approx({name: float(value) for name, value in values.items()}, rel=1e-5)
    assert min(terms.values()) > 0.01
    close(found, gradients)
    assert np.abs(found[0][WORDS]).max() > 0


# Means of the tiny encoder's states have cosines of nearly 1, whose differences are rounding; first tokens differ more.
PENALTY = {"language_penalty": 2.0, "languages": 3, "dim": 32}
POOLED = {"strong": {}, "sentence": {"pooling": "cls", **PENALTY}}


@pytest.fixture(scope="module")
def whole(examples):
    """The gradients of the first batch as a whole, by objective."""
    return {name: gradient_of(examples, objective=name, **more) for name, more in POOLED.items()}


WAYS = [
    *(("strong", mode) for mode in ("chunks", "remat", "devices, chunks")),
    *(("sentence", mode) for mode in ("chunks", "devices", "three devices")),
]


@pytest.mark.parametrize(("objective", "mode"), WAYS, ids=[", ".join(way) for way in WAYS])
def test_every_way_to_compute_it_gives_the_same_gradient(examples, whole, objective, mode):
    expected, terms = whole[objective]
    found, own = gradient_of(examples, objective=objective, **POOLED[objective], **MODES[mode])
    assert own == pytest.approx(terms, rel=1e-5)
    close(found, expected)


@pytest.mark.parametrize("objective", ["strong", "l2", "sentence"])
def test_devices_exchange_what_the_links_name_and_gradients(examples, monkeypatch, objective):
    """No more than both sides of the links, after the projector; parameters and their gradients are as they are."""
    monkeypatch.setattr("train.align.batches._LINKS", 4)
    made, (_, trained, _) = programs(4, objective=objective)
    rows = order_of(0, PAIRS, 8, 0, 1)[0].tolist()
    batch = made.place(batch_of(compared(examples, objective), rows, ChunkSizes(0, WIDTH, 4), 0))
    state = made.init(trained, KEY)
    text = made.whole.lower(state, batch, KEY, made._frozen, made._start).compile().as_text()
    links = len(batch.source)
    width = 8 if objective == "strong" else 32
    assert links * width < max(chunk.ids.size for chunk in batch.chunks) * 32 / 2
    parameters = {x.shape for x in jax.tree.leaves((trained, state.projector))}
    kinds = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
    exchanged = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", text)
    found = (shape for one in exchanged for shape in re.findall(r"\[([\d,]*)\]", one))
    shapes = {tuple(int(n) for n in shape.split(",") if n) for shape in found}
    assert {shape for shape in shapes if np.prod(shape) > links * width} <= parameters
    assert shapes & parameters
    if objective != "l2":
        scored = 2 * links if objective == "strong" else links
        assert f"[{scored // 4},{scored}]" in text
        assert f"[{scored},{scored}]" not in text


def test_links_of_all_positions_find_room(examples):
    """Links of all positions of the long rows, on the first device, and none of the short ones, on the last."""
    devices = 2
    rows, rng = order_of(0, PAIRS, 8, 0, 1)[0].tolist(), np.random.default_rng(1)
    lengths = [LONGEST if row in rows[:2] else 7 for row in range(PAIRS)]
    source, target = ([rng.integers(5, 60, n).astype(np.int32) for n in lengths] for _ in range(2))
    links = [np.stack([np.arange(n * (n == LONGEST))] * 2, 1).astype(np.int32) for n in lengths]
    dense = replace(examples, source=source, target=target, links=links)
    (chunk,) = batch_of(dense, rows, ChunkSizes(0, 24, devices), 0).chunks
    assert chunk.picks.shape[1] == chunk.ids.size // devices
    assert not chunk.picks[-1].any()
    (expected, terms), (found, own) = (gradient_of(dense, width=24, objective="l2", devices=n) for n in (1, devices))
    assert own == pytest.approx(terms, rel=1e-6)
    close(found, expected)


def test_dropout_differs_between_steps_and_frozen_words_stay(examples):
    made, (_, trained, frozen) = programs(objective="weak", dropout=0.2, freeze_words=True)
    batch = batch_of(examples, range(8), ChunkSizes(0, WIDTH), 0)
    steps = [made.step(made.init(trained, KEY), batch, jax.random.fold_in(KEY, number)) for number in (0, 1, 0)]
    values = [float(terms["weak"]) for _, terms in steps]
    assert values[0] == values[2] != values[1]
    assert WORDS in frozen
    assert WORDS not in steps[0][0].encoder


@pytest.mark.parametrize("tokens", [0, 40, 64, 512])
def test_chunks_hold_every_sentence_once(examples, tokens):
    batch = batch_of(examples, [3, 1, 7, 0], ChunkSizes(tokens, WIDTH, 2), 0)
    found = [
        tuple(sentence)
        for chunk in batch.chunks
        for ids, lengths in zip(chunk.ids, chunk.lengths, strict=True)
        for sentence in np.split(ids, np.cumsum(lengths))[: np.count_nonzero(lengths)]
    ]
    sides = (examples.source, examples.target)
    assert sorted(found) == sorted(tuple(side[row]) for side in sides for row in (3, 1, 7, 0))
    assert batch.tokens == sum(map(len, found))
    assert all(len(chunk.ids) % 2 == 0 for chunk in batch.chunks)
    # What the links name are the tokens that they name.
    picked = exchange.joined(
        [np.take_along_axis(chunk.ids.reshape(2, -1), chunk.picks, axis=1).ravel() for chunk in batch.chunks],
        2, len(batch.filler),
    )  # fmt: skip
    source = np.concatenate([examples.source[row][examples.links[row][:, 0]] for row in (3, 1, 7, 0)])
    target = np.concatenate([examples.target[row][examples.links[row][:, 1]] for row in (3, 1, 7, 0)])
    assert len(picked) % 1024 == 0
    np.testing.assert_array_equal(picked[batch.source[batch.valid]], source)
    np.testing.assert_array_equal(picked[batch.target[batch.valid]], target)


def test_bfloat16_computes_and_float32_keeps(examples):
    (exact, _), terms = gradient_of(examples, 96, objective="strong")
    (found, _), rounded = gradient_of(examples, 96, objective="strong", dtype="bfloat16")
    assert rounded["strong"] == pytest.approx(terms["strong"], rel=0.02)
    assert rounded["strong"] != terms["strong"]
    for name, value in found.items():
        assert value.dtype == np.float32
        cosine = np.vdot(value, exact[name]) / (np.linalg.norm(value) * np.linalg.norm(exact[name]))
        assert cosine > 0.95, name


def test_one_order_for_all_passes():
    """Every pass over the pairs takes each once, and steps can be asked for in parts."""
    order = order_of(5, 10, 4, 0, 10)
    assert order.shape == (10, 4)
    for start in range(0, 40, 10):
        assert sorted(order.ravel()[start : start + 10]) == list(range(10))
    assert (order.ravel()[:10] != order.ravel()[10:20]).any()
    np.testing.assert_array_equal(np.concatenate([order_of(5, 10, 4, 0, 3), order_of(5, 10, 4, 3, 7)]), order)
    assert (order_of(6, 10, 4, 0, 10) != order).any()


@pytest.mark.parametrize("devices", [1, 3])
def test_batches_of_about_as_many_tokens_have_one_shape(devices):
    """Rows of a whole batch are rounded up by less than a quarter, on each device."""
    sizes = ChunkSizes(0, 90, devices)
    assert sizes.width == 96
    for on_each in range(1, 200):
        rows = sizes.rows(on_each * devices)
        assert rows % devices == 0
        assert on_each <= rows // devices < 1.25 * on_each
    assert {sizes.rows(rows * devices) // devices for rows in range(90, 111)} == {96, 112}


def test_another_combination_of_chunks_needs_no_other_programs():
    rng = np.random.default_rng(0)
    source, target = (list(rng.integers(5, 60, (6, 23)).astype(np.int32)) for _ in range(2))
    examples = Examples(source, target, [np.array([[1, 2], [3, 4]], np.int32)] * 6, np.zeros(6, np.int32), ("de",))
    made, (_, trained, _) = programs(2, objective="strong")
    state = made.init(trained, KEY)
    shapes, counts = [], []
    for pairs in (3, 6, 5):
        batch = batch_of(examples, range(pairs), ChunkSizes(96, 24, 2), 0)
        shapes.append([chunk.ids.shape for chunk in batch.chunks])
        with count_compilations() as compiled:
            state, _ = made.step(state, batch, KEY)
        counts.append(len(compiled))
    assert shapes == [[(4, 24), (2, 24)], [(4, 24)] * 3, [(4, 24), (4, 24), (2, 24)]]
    assert counts[0] > 0
    assert counts[2] == 0
