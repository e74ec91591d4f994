"""Parity of every architecture's hidden states with torch, and proof that the parity tests can fail."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lsar_jax.models.architectures.bert import build
from lsar_jax.models.encoder import EncoderConfig
from lsar_jax.models.parts import ACTIVATIONS, LayerFactory
from tests import parity
from tests.optional import need

BLOCK, MODEL = parity.BLOCK, parity.MODEL
SMALL = EncoderConfig(64, 32, 1, 4, 64, 512, token_types=2)


@pytest.mark.parametrize("name", parity.ARCHITECTURES)
def test_states_equal_torch_golden(name):
    model, case = parity.load(name), parity.golden(name)
    assert parity.block_errors(model, case).max() <= BLOCK
    errors = parity.errors(model, case)
    assert len(errors) == len(model.blocks) + 1
    assert errors[0] <= BLOCK
    assert errors.max() <= MODEL
    assert parity.pooled_error(name, case) <= MODEL
    assert parity.errors(parity.load(name, "bfloat16"), case).max() <= 0.05


# Windows of long rows are computed in blocks.
LONG = [pytest.param(name, 600, marks=pytest.mark.slow) for name in ("modernbert", "gemma2")]


@pytest.mark.parametrize(("name", "longest"), [*((name, 40) for name in parity.ARCHITECTURES), *LONG])
def test_states_equal_live_torch(name, longest, rng):
    need("torch")
    lengths = np.array([longest, 1, 2, longest - 1, 17, 5, 23, 40, 8], np.int32)
    ids, languages = rng.integers(5, 64, (9, longest)).astype(np.int32), rng.integers(0, 3, 9, np.int32)
    case = parity.live(name, ids, lengths, languages)
    assert parity.block_errors(parity.load(name), case).max() <= BLOCK
    assert parity.errors(parity.load(name), case).max() <= MODEL
    assert parity.pooled_error(name, case) <= MODEL


@pytest.mark.parametrize("name", ["bert", "xlm-roberta", "m2m-100"])
def test_padding_that_a_text_spells_out(name, rng):
    """A ``<pad>`` in a text is a token; where positions are counted from its id, it has none."""
    need("torch")
    ids, lengths = rng.integers(5, 64, (3, 12)).astype(np.int32), np.array([12, 9, 4], np.int32)
    ids[0, [0, 5, 6]] = ids[1, 8] = ids[2, :3] = 1
    case, model = parity.live(name, ids, lengths, None), parity.load(name)
    assert parity.errors(model, case).max() <= MODEL
    # Behind another sentence in its row.
    row = np.concatenate([ids[0], ids[1]])[None]
    packed = parity.packed_states(model, row, np.array([[12, 9]], np.int32), None)[-1][0, 12:21]
    alone = parity.packed_states(model, ids[1:2], np.array([[9]], np.int32), None)[-1][0, :9]
    np.testing.assert_allclose(packed, alone, atol=1e-5)


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_bfloat16_products_are_summed_in_float32(rng, monkeypatch, has_bfloat16):
    """Both the product and its gradient are rounded once; only on a CPU is the unrounded sum an array of its own."""
    layer = build(SMALL, LayerFactory(jnp.dtype("bfloat16"), jnp.dtype("float32"))).blocks[0].feed.up
    monkeypatch.setattr("lsar_jax.models.product._multiplies_bfloat16", lambda: has_bfloat16)
    values = [rng.standard_normal(shape) for shape in ((3, 100, 32), (32, 64), (3, 100, 64))]
    x, kernel, weights = (jnp.asarray(value, jnp.bfloat16) for value in values)

    graph, state = nnx.split(layer)

    def product(x, kernel):
        return nnx.merge(graph, {**state, "kernel": state["kernel"].replace(kernel.astype(jnp.float32))})(x)

    found, back = jax.vjp(product, x, kernel)
    exact = [np.asarray(value, np.float64) for value in (x, kernel, weights)]
    expected = [np.einsum(rule, *operands) for rule, operands in (
        ("bti,io->bto", exact[:2]), ("bto,io->bti", exact[:0:-1]), ("bti,bto->io", exact[::2]),
    )]  # fmt: skip
    for own, other in zip((found, *back(weights)), expected, strict=True):
        assert own.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(own, np.float64), other, rtol=2**-8, atol=1e-4)
    jax.clear_caches()  # what was traced for the processor that is here
    for platform, result in (("cpu", "xf32>"), ("tpu", "xbf16>"), ("cuda", "xbf16>")):
        text = jax.jit(product).trace(x, kernel).lower(lowering_platforms=(platform,)).as_text()
        [dot] = [line for line in text.splitlines() if "dot_general" in line]
        assert dot.endswith(result)
        assert ("bf16" in dot) == (has_bfloat16 or platform != "cpu")


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_a_gpu_approximates_the_exact_gelu_in_bfloat16_alone(rng, activation):
    config = replace(SMALL, activation=activation)
    given = 3 * rng.standard_normal((2, 5, 64))
    for dtype in (jnp.dtype("bfloat16"), jnp.dtype("float32")):
        x = jnp.asarray(given, dtype)
        for attention in ("xla", "rows", "cudnn"):
            block = build(config, LayerFactory(dtype, dtype, attention)).blocks[0]
            fast = activation == "gelu" and dtype == jnp.bfloat16 and attention == "cudnn"
            expected = ACTIVATIONS["gelu_new" if fast else activation](x)
            np.testing.assert_array_equal(np.asarray(ACTIVATIONS[block.feed.activation](x)), np.asarray(expected))
    exact, fast = (np.asarray(ACTIVATIONS[name](jnp.asarray(given, jnp.float32))) for name in ("gelu", "gelu_new"))
    assert 1e-4 < np.abs(exact - fast).max() < 5e-4


def test_the_products_of_a_gpu_are_kept_apart():
    """Query, key and value each have a barrier, and no two are the same; beside them stand those of both outputs."""
    dtype, ids, lengths = jnp.dtype("float32"), np.zeros((1, 8), np.int32), np.array([[3]], np.int32)
    for attention, expected in (("cudnn", 5), ("xla", 0)):
        model = nnx.eval_shape(lambda a=attention: build(SMALL, LayerFactory(dtype, dtype, a)))
        lowered = jax.jit(lambda model: list(model.hidden_states(ids, lengths))).lower(model)
        barriers = [line for line in lowered.as_text().splitlines() if "optimization_barrier" in line]
        operands = {line.split("optimization_barrier")[1] for line in barriers}
        assert len(barriers) == len(operands) == expected


def test_what_is_kept_together_on_a_gpu_changes_nothing(rng):
    """Without bfloat16, the model for a GPU runs here too: its states and gradients are those of the other."""
    loaded, case, dtype = parity.load("bert"), parity.golden("bert"), jnp.dtype("float32")
    kinds = ("rows", "cudnn")
    made = [nnx.eval_shape(lambda kind=kind: build(loaded.config, LayerFactory(dtype, dtype, kind))) for kind in kinds]
    models = [nnx.merge(nnx.split(model)[0], nnx.state(loaded)) for model in made]
    ids, lengths = case["ids"], case["lengths"]
    mask = np.arange(ids.shape[1]) < lengths[:, None]

    def loss(state, graph):
        *_, last = nnx.merge(graph, state).hidden_states(ids, lengths[:, None])
        return jnp.sum(jnp.where(mask[..., None], last, 0) ** 3), last

    results = []
    for model in models:
        graph, state = nnx.split(model)
        (_, last), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)(state, graph)
        results.append((np.asarray(last)[mask], *map(np.asarray, jax.tree.leaves(gradient))))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(one).max())
    assert tuple(model.blocks[0].attention.kind for model in models) == kinds


def test_segments_equal_torch(rng):
    torch = need("torch")
    model, case = parity.load("bert"), parity.golden("bert")
    ids, lengths = case["ids"], case["lengths"]
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    types = (rng.random(ids.shape) < 0.5) & mask
    *_, last = model.hidden_states(ids, lengths[:, None], types=types.astype(np.int32))
    theirs = parity.torch_model("bert")
    with torch.no_grad():
        inputs = [torch.tensor(part.astype(np.int64)) for part in (np.where(mask, ids, 0), mask, types)]
        expected = theirs(inputs[0], attention_mask=inputs[1], token_type_ids=inputs[2]).last_hidden_state.numpy()
    np.testing.assert_allclose(np.asarray(last)[mask], expected[mask], atol=2e-5)
    plain = list(model.hidden_states(ids, lengths[:, None]))[-1]
    assert np.abs(np.asarray(last) - np.asarray(plain))[mask].max() > 1e-3


def test_words_that_were_looked_up():
    """The states are the same, and the gradient is that of the rows, not of the table."""
    model, case = parity.load("bert"), parity.golden("bert")
    graph, state = nnx.split(model)

    def total(state, words):
        *_, last = nnx.merge(graph, state).hidden_states(case["ids"], case["lengths"][:, None], words=words)
        return jnp.square(last[:, 0]).sum(), last

    table = model.embeddings.word.embedding[...]
    run = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True, allow_int=True))
    (_, last), (whole, _) = run(state, None)
    (_, same), (others, rows) = run(state, table[case["ids"]])
    np.testing.assert_array_equal(same, last)
    assert not np.asarray(others["embeddings"]["word"]["embedding"][...]).any()
    expected = np.asarray(whole["embeddings"]["word"]["embedding"][...])
    found = jnp.zeros_like(table).at[case["ids"]].add(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
