"""Our hidden states beside torch's, for every architecture: the tests' functions, and a table.

    python -m tests.parity

The table compares with the committed golden values, and with torch itself where it is installed.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights, read_pooler
from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.encoder import Encoder
from lsar_jax.models.pooling import pool
from lsar_jax.models.projection import Projection
from lsar_jax.tokens.tokenizer import Specials
from tests.optional import need

GOLDEN = Path(__file__).parent / "golden"
# Names of folders in ``golden``.
ARCHITECTURES = (
    "bert", "xlm-roberta", "xlm", "xlm-sinusoidal", "laser1", "laser2", "qwen3", "qwen3-both", "distilbert",
    "eurobert", "llama", "qwen2", "ministral3",
    "modernbert",
    "gemma2", "gemma3", "gemma3-causal", "embedding-gemma2",
    "gte",
    "nomic_bert",
    "jina-v3",
    "m2m-100",
)  # fmt: skip
# Most that a block alone may differ from torch's, and a state of the model, relative to the largest entry.
BLOCK, MODEL = 1e-5, 1e-4
LENGTHS = [12, 7, 1, 9]
TEXTS = [
    "the cat is here", "a", "", "it was “the best” of times – so ‘they’ say… don’t you?",
    "UPPER Case &amp; (brackets) 50 % «quoted» ; end", "x y z " * 12,
]  # fmt: skip


def load(name, dtype="float32"):
    checkpoint = read_folder(GOLDEN / name, id=name)
    return load_weights(checkpoint, blocks=checkpoint.config.blocks, dtype=dtype)


def golden(name):
    with np.load(GOLDEN / name / "golden.npz") as file:
        return {key: value.astype(np.int32) if value.dtype == np.int64 else value for key, value in file.items()}


def check_written(encoder, folder, texts=TEXTS):
    """Writes an encoder, and checks that sentence-transformers gives its vectors."""
    encoder.to_sentence_transformers(folder)
    theirs = need("sentence_transformers").SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(theirs, encoder.encode(texts), rtol=0, atol=1e-5)


def set_attention(block, **changes):
    """Changes options of a block's attention."""
    block.attention.config = replace(block.attention.config, **changes)


@jax.jit
def packed_states(model, ids, lengths, languages):
    return list(model.hidden_states(ids, lengths, languages))


def all_states(model, ids, lengths, languages):
    """The states of rows with one sentence each."""
    return packed_states(model, ids, lengths[:, None], None if languages is None else languages[:, None])


def errors(model, case, lengths=None):
    """Largest error at real tokens of each layer, relative to max|h| of the layer."""
    seen = case["lengths"] if lengths is None else lengths
    got = all_states(model, case["ids"], seen, case.get("languages"))
    real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
    worst = []
    for ours, theirs in zip(got, unstack(case["hidden"]), strict=True):
        theirs = theirs[..., : ours.shape[-1]]
        difference = np.abs(np.asarray(ours, np.float64) - theirs)[real]
        worst.append(difference.max() / np.abs(theirs[real]).max())
    return np.array(worst)


def pooled_error(name, case):
    """Error of the pooler's output (of the max pooling for LASER, the first token for XLM)."""
    checkpoint = read_folder(GOLDEN / name, id=name)
    last = all_states(load(name), case["ids"], case["lengths"], case.get("languages"))[-1]
    ours = pool("max" if name.startswith("laser") else "cls", last, case["lengths"][:, None], Specials(0, 0))[:, 0]
    if checkpoint.architecture.pooler:
        ours = Projection([read_pooler(checkpoint)])(ours)
    return np.abs(np.asarray(ours, np.float64) - case["pooled"]).max() / np.abs(case["pooled"]).max()


def block_errors(model, case):
    """Error of each block alone: torch's state of the layer below goes in."""
    real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
    layers = unstack(case["hidden"])
    worst = []
    lengths = jnp.asarray(case["lengths"])[:, None]
    mask = AttentionMask.of(lengths, case["ids"].shape[1]) if isinstance(model, Encoder) else lengths
    for block, below, above in zip(model.blocks, layers, layers[1:], strict=False):
        width = model.config.widths[len(worst)]
        inputs = getattr(model, "inputs", None)
        given = () if inputs is None else (None, inputs(jnp.asarray(layers[0]), len(worst)))
        ours = block(jnp.asarray(below[..., :width]), mask, *given)
        # Torch's last state is after the final norm.
        if block is model.blocks[-1] and getattr(model, "norm", None) is not None:
            ours = model.norm(ours)
        ours = np.asarray(ours, np.float64)
        worst.append(np.abs(ours - above)[real].max() / np.abs(above[real]).max())
    return np.array(worst)


def unstack(hidden):
    """The layers; LASER's first is narrower and was padded with NaN to be stored."""
    return [layer[..., ~np.isnan(layer).all(axis=(0, 1))] for layer in hidden]


def hidden_states(model, ids, lengths, languages=None):
    """Returns torch's hidden states, ``[layer, batch, length, dim]``, and its pooled output."""
    import torch

    mask = np.arange(ids.shape[1]) < lengths[:, None]
    # Positions of XLM-R are counted where the id is not the padding id.
    pad = model.config.pad_token_id or 0
    given = {"attention_mask": torch.tensor(mask, dtype=torch.long)}
    if getattr(model.config, "use_lang_emb", False) and model.config.n_langs > 1:
        given["langs"] = torch.tensor(np.repeat(languages[:, None], ids.shape[1], axis=1), dtype=torch.long)
    # The projection of EmbeddingGemma 2 is a layer after the pooling here.
    if hasattr(model, "embedding_projection"):
        model.embedding_projection = torch.nn.Identity()
    with torch.no_grad():
        output = model(torch.tensor(np.where(mask, ids, pad), dtype=torch.long), output_hidden_states=True, **given)
    pooled = getattr(output, "pooler_output", None)
    pooled = output.last_hidden_state[:, 0] if pooled is None else pooled
    return torch.stack(output.hidden_states).numpy(), pooled.numpy()


def torch_model(name):
    """Torch's model of a golden folder."""
    from safetensors.torch import load_file
    from transformers import AutoModel
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

    if name.startswith("laser"):
        state = load_file(GOLDEN / name / "model.safetensors")
        model = Lstm(len(state["embed_tokens.weight"]), 12, 16, 3)
        model.load_state_dict(state)
        return model.eval()
    if name == "m2m-100":
        return M2M100Encoder.from_pretrained(GOLDEN / name, attn_implementation="eager").eval()
    plain = {} if name.startswith("xlm-s") or name == "xlm" else {"attn_implementation": "eager"}
    return AutoModel.from_pretrained(GOLDEN / name, **plain).eval()


def live(name, ids, lengths, languages):
    """A golden case made by torch now."""
    model = torch_model(name)
    states = lstm_states if name.startswith("laser") else hidden_states
    hidden, pooled = states(model, ids, lengths, *(() if name.startswith("laser") else (languages,)))
    return {"ids": ids, "lengths": lengths, "languages": languages, "hidden": hidden, "pooled": pooled}


def lstm_states(model, ids, lengths):
    """Torch's packed LSTM, layer by layer; states past a row's length are zero."""
    import torch

    real = np.arange(ids.shape[1]) < lengths[:, None]
    with torch.no_grad():
        x = model.embed_tokens(torch.tensor(ids, dtype=torch.long))
        layers = [np.full((*ids.shape, 2 * model.lstm.hidden_size), np.nan, np.float32)]
        layers[0][..., : x.shape[-1]] = x.numpy()
        for depth in range(1, model.lstm.num_layers + 1):
            layers.append(model.run(x, lengths, depth).numpy())
        top = np.where(real[..., None], layers[-1], -np.inf)
    return np.stack(layers), top.max(axis=1)


if importlib.util.find_spec("torch"):
    import torch

    class Lstm(torch.nn.Module):
        """The modules of LASER's encoder under the names that its weights have."""

        def __init__(self, vocabulary, embedding, hidden, layers):
            super().__init__()
            self.embed_tokens = torch.nn.Embedding(vocabulary, embedding, padding_idx=1)
            self.lstm = torch.nn.LSTM(embedding, hidden, layers, bidirectional=True)

        def run(self, x, lengths, depth):
            """The states of the first ``depth`` layers' top, ``[batch, length, 2 hidden]``."""
            cut = torch.nn.LSTM(self.lstm.input_size, self.lstm.hidden_size, depth, bidirectional=True)
            state = self.lstm.state_dict()
            cut.load_state_dict({name: state[name] for name in cut.state_dict()})
            counts = torch.tensor(np.asarray(lengths, np.int64))
            packed = torch.nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), counts, enforce_sorted=False)
            states, _ = torch.nn.utils.rnn.pad_packed_sequence(cut(packed)[0], total_length=x.shape[1])
            return states.transpose(0, 1)


def main():
    print("| architecture | blocks | width | one block | all blocks | pooled | against |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(0)
    for name in ARCHITECTURES:
        model = load(name)
        cases = {"golden": golden(name)}
        if importlib.util.find_spec("torch"):
            lengths = np.array([40, 1, 2, 39, 17, 5, 23, 40, 8], np.int32)
            ids = rng.integers(5, 64, (9, 40)).astype(np.int32)
            cases["torch"] = live(name, ids, lengths, rng.integers(0, 3, 9).astype(np.int32))
        for kind, case in cases.items():
            figures = (block_errors(model, case).max(), errors(model, case).max(), pooled_error(name, case))
            shown = " | ".join(f"{figure:.1e}" for figure in figures)
            print(f"| {name} | {len(model.blocks)} | {model.config.widths[-1]} | {shown} | {kind} |")


if __name__ == "__main__":
    main()
