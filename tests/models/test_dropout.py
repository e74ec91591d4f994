"""Training passes of the transformer: dropout, recomputation and gradients."""

import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.dropout import Dropout
from lsar_jax.models.written_out import written_out
from tests import parity
from tests.optional import need

KEY = jax.random.key(0)
# Architectures whose training is tested.
TRAINED = ("bert", "qwen3", "qwen3-both", "modernbert", "gte", "gemma3", "gemma3-causal")


@pytest.fixture(scope="module")
def case():
    case = parity.golden("bert")
    return parity.load("bert"), case["ids"], case["lengths"][:, None]


@jax.jit
def states(model, ids, lengths, dropout):
    return list(model.hidden_states(ids, lengths, dropout=dropout))


def test_shares_of_zero_change_nothing(case, rng):
    for one, two in zip(states(*case, None), states(*case, Dropout(KEY, 0.0, 0.0)), strict=True):
        np.testing.assert_array_equal(one, two)
    states_of_heads = [jnp.asarray(rng.standard_normal((2, 6, 4, 8)), jnp.float32) for _ in range(3)]
    lengths = jnp.array([6, 3], jnp.int32)
    allowed = jnp.repeat(jnp.arange(6, dtype=jnp.int32)[None, None] < lengths[:, None, None], 6, axis=1)
    expected = jax.nn.dot_product_attention(*states_of_heads, mask=allowed[:, None])
    got = jax.jit(partial(written_out, scale=None, cap=None))(*states_of_heads, allowed, dropout=Dropout(KEY, 0.0, 0.0))
    for row, length in enumerate(lengths.tolist()):
        np.testing.assert_allclose(got[row, :length], expected[row, :length], atol=1e-6)


def test_a_share_of_the_embeddings_is_zeroed_and_the_rest_scaled(case):
    plain = np.asarray(states(*case, None)[0])
    dropped = np.asarray(states(*case, Dropout(KEY, 0.25, 0.0))[0])
    zeroed = dropped == 0
    assert zeroed.mean() == pytest.approx(0.25, abs=0.02)
    np.testing.assert_allclose(dropped[~zeroed], plain[~zeroed] / 0.75, rtol=1e-6)


def test_the_key_decides(case):
    first, again, other = (states(*case, Dropout(jax.random.key(seed)))[-1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(np.asarray(first) - np.asarray(other)).max() > 0.1


def test_every_place_has_a_mask_of_its_own(case):
    """Dropout does not change the second block as it changes the first."""
    model, ids, lengths = case
    mask = AttentionMask.of(lengths, ids.shape[1])
    x = jnp.asarray(parity.golden("bert")["hidden"][1])
    block = jax.jit(model.blocks[0].__call__)
    changes = []
    for shares in ((0.5, 0.0), (0.0, 0.5)):
        for key in jax.random.split(KEY, 2):
            changed, plain = (np.asarray(block(x, mask, how)) for how in (Dropout(key, *shares), None))
            changes.append(changed - plain)
    for index, one in enumerate(changes):
        assert np.abs(one).max() > 0.01
        assert all(np.abs(one - other).max() > 0.01 for other in changes[:index])


def loss(parameters, graph, ids, lengths, dropout, remat, weights):
    model = nnx.merge(graph, parameters)
    last = list(model.hidden_states(ids, lengths, dropout=dropout, remat=remat))[-1]
    real = jnp.arange(ids.shape[1], dtype=jnp.int32)[None] < lengths
    return jnp.where(real[:, :, None], last * weights, 0).sum()


gradients = jax.jit(jax.grad(loss), static_argnums=(1, 5))


def test_recomputed_blocks_have_the_same_masks(case, rng):
    model, ids, lengths = case
    graph, parameters = nnx.split(model, nnx.Param)
    weights = rng.standard_normal((*ids.shape, 32)).astype(np.float32)
    kept, again = (gradients(parameters, graph, ids, lengths, Dropout(KEY), remat, weights) for remat in (False, True))
    # Some gradients, such as those of the keys' biases, are zero but for rounding.
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(kept))
    for one, two in zip(jax.tree.leaves(kept), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6 * largest)


def test_recomputing_keeps_less(case):
    model, ids, lengths = case
    graph, parameters = nnx.split(model, nnx.Param)
    weights = np.ones((*ids.shape, 32), np.float32)
    kept = []
    for remat in (False, True):
        _, pull = jax.vjp(lambda p, remat=remat: loss(p, graph, ids, lengths, Dropout(KEY), remat, weights), parameters)
        kept.append(sum(leaf.nbytes for leaf in jax.tree.leaves(pull) if leaf.shape[:2] == ids.shape))
    # The states that enter the blocks stay, and what is inside them goes.
    assert kept[1] < 0.3 * kept[0]


@pytest.mark.parametrize("name", [*TRAINED[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in TRAINED[2:])])
def test_gradients_equal_torch(name, rng, tmp_path):
    """All parameters: torch's are written as a checkpoint, and read as one."""
    torch = need("torch")
    case, model = parity.golden(name), parity.load(name)
    ids, lengths = case["ids"], case["lengths"][:, None]
    graph, parameters = nnx.split(model, nnx.Param)
    weights = rng.standard_normal((*ids.shape, 32)).astype(np.float32)
    ours = nnx.merge(graph, gradients(parameters, graph, ids, lengths, None, False, weights))
    theirs = parity.torch_model(name)
    mask = np.arange(ids.shape[1])[None] < lengths
    padded = torch.tensor(np.where(mask, ids, 0), dtype=torch.long)
    last = theirs(padded, attention_mask=torch.tensor(mask, dtype=torch.long)).last_hidden_state
    (last * torch.tensor(weights * mask[:, :, None])).sum().backward()
    for parameter in theirs.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    theirs.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(parity.GOLDEN / name / file, tmp_path)
    expected = load_weights(read_folder(tmp_path, id=name), blocks=len(model.blocks), dtype="float32")
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected))
    pairs = zip(nnx.to_flat_state(nnx.state(ours)), nnx.to_flat_state(nnx.state(expected)), strict=True)
    for (path, got), (_, right) in pairs:
        assert np.isfinite(got[...]).all()
        # Some gradients, such as those of the keys' biases, are zero but for rounding.
        atol = max(1e-4 * np.abs(right[...]).max(), 1e-6 * largest)
        np.testing.assert_allclose(got[...], right[...], rtol=0, atol=atol, err_msg=f"{name} {path}")
