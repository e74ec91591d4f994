"""LSAR between the blocks of a running decoder: the code of docs/how-to/running-model.md, against numpy."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests import parity
from tests.optional import need

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "running-model.md").read_text(encoding="utf-8")
STRENGTHS = {1: 0.4, 2: -0.4}


@pytest.fixture(scope="module")
def bases():
    rng = np.random.default_rng(0)
    return {k: np.linalg.qr(rng.standard_normal((32, 3)))[0].astype(np.float32) for k in STRENGTHS}


def code_of(language):
    """The code of a block of the page, up to what needs a checkpoint."""
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    names = {}
    exec(compile(found.partition("encoder, strengths")[0], "the page", "exec"), names)
    return names


def ours(bases):
    """The states of our decoder with the blocks of the page, and what each of its blocks alone makes of them."""
    plain, model, case = parity.load("qwen3"), parity.load("qwen3"), parity.golden("qwen3")
    wrap = code_of("python")["Removed"]
    for k, strength in STRENGTHS.items():
        model.blocks[k - 1] = wrap(model.blocks[k - 1], bases[k], strength)
    ids, lengths = case["ids"], case["lengths"]
    states = parity.all_states(model, ids, lengths, None)
    mask = parity.AttentionMask.of(lengths[:, None], ids.shape[1])
    alone = [block(state, mask) for block, state in zip(plain.blocks, states, strict=False)]
    return plain, states, alone, case


def removed(h, basis, strength):
    h, basis = np.asarray(h, np.float64), np.asarray(basis, np.float64)
    return h - strength * h @ basis @ basis.T


def test_the_states_of_our_decoder_are_those_of_numpy(bases):
    plain, states, alone, _ = ours(bases)
    for k, strength in STRENGTHS.items():
        np.testing.assert_allclose(states[k], removed(alone[k - 1], bases[k], strength), rtol=0, atol=1e-5)
        # A strength of the other sign would be seen.
        assert np.abs(np.asarray(states[k]) - removed(alone[k - 1], bases[k], -strength)).max() > 0.1
    np.testing.assert_allclose(states[3], plain.norm(alone[2]), rtol=0, atol=1e-5)


def test_the_hooks_of_transformers_make_the_same_states(bases):
    torch = need("torch")
    _, states, _, case = ours(bases)
    model = parity.torch_model("qwen3")
    seen = {}
    for k in STRENGTHS:
        model.layers[k].register_forward_pre_hook(lambda _, given, k=k: seen.update({k: given[0].numpy()}))
    code_of("py")["remove_language"](model, bases, STRENGTHS)
    real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
    tokens = torch.tensor(np.where(real, case["ids"], 0), dtype=torch.long)
    with torch.no_grad():
        last = model(tokens, attention_mask=torch.tensor(real)).last_hidden_state.numpy()
    for k, state in {**seen, 3: last}.items():
        np.testing.assert_allclose(state[real], states[k][real], rtol=0, atol=1e-4)
