"""Makes ``tests/golden/``: tiny checkpoints of every architecture, and what the reference programs make of them.

    pip install torch sentence-transformers sacremoses sentencepiece subword-nmt
    pip install --no-deps laserembeddings laser_encoders
    pip install transliterate unicategories requests tqdm
    pip install --no-deps model2vec joblib
    PYTHONPATH=. python .ci/make_golden.py [NAME ...]

The config and the tokenizer of a model of transformers or LASER are given, in its folder; its weights and its hidden
states are made here, those of torch. The weights are drawn so that every part shows in the output: kernels
that keep activations at unit scale, random biases and LayerNorm weights.

The configs have options that show too: a LayerNorm epsilon of 1e-3; windows of three tokens before, which
Gemma counts as 4 where it is causal and as 6 where it is not; planes of Llama that are scaled, that are not, and
that are between. GTE has the scaling into which "ntk" by 8 of the base 20 is converted. XLM-R counts positions
from the padding id, 1: 40 tokens need 42 rows. transformers splits the text of every Qwen2 as that model does.

Token ids of LASER1 are those of laserembeddings 1.1.2, of LASER2 those of laser_encoders 0.0.2 (its tokenizer's
file alone: the package needs fairseq), over 300 merges of BPE and a SentencePiece model of 900 pieces, learned
from the UDHR.
"""

import importlib.util
import json
import math
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel, NllbTokenizer
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

import lsar_jax as lj
from tests.parity import ARCHITECTURES, LENGTHS, TEXTS, Lstm, hidden_states, lstm_states

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"


def transformers_model(name: str) -> None:
    """Draws weights for the config of a folder, and keeps torch's states of random ids."""
    folder = GOLDEN / name
    config = AutoConfig.from_pretrained(folder)
    model = M2M100Encoder(config) if name == "m2m-100" else AutoModel.from_config(config)
    draw(model.eval())
    state = {key: value.contiguous() for key, value in model.state_dict().items() if "position_ids" not in key}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 64, (len(LENGTHS), max(LENGTHS))).astype(np.int32)
    languages = rng.integers(0, 3, len(LENGTHS)).astype(np.int32)
    hidden, pooled = hidden_states(model, ids, np.array(LENGTHS), languages)
    arrays = {"ids": ids, "lengths": np.int32(LENGTHS), "languages": languages, "hidden": hidden, "pooled": pooled}
    np.savez_compressed(folder / "golden.npz", **arrays)
    if name in ("gte", "nomic_bert", "jina-v3"):
        # With the names that checkpoints have.
        model.save_pretrained(folder)
    if name == "m2m-100":
        tokenizer = NllbTokenizer.from_pretrained(folder)
        languages = ["eng_Latn", "deu_Latn", "kor_Hang", "pes_Arab", "prs_Arab", "zho_Hans"]
        reference = [[text, code, ids_of(tokenizer, text, code)] for text in TEXTS for code in languages]
        (folder / "golden_ids.json").write_text(json.dumps(reference, ensure_ascii=False, indent=0) + "\n")


def ids_of(tokenizer: NllbTokenizer, text: str, language: str) -> list[int]:
    tokenizer.src_lang = language
    return tokenizer(text, truncation=True, max_length=40)["input_ids"]


def draw(model: torch.nn.Module) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "embed" in name:
                # Sinusoids are fixed numbers, not drawn.
                if not (name.startswith("position") and getattr(model.config, "sinusoidal_embeddings", False)):
                    parameter.normal_(0, 1)
            else:
                # Queries and keys are larger, so that attention is far from uniform.
                sharp = any(part in name for part in ("query", "key", "q_lin", "k_lin", "q_proj", "k_proj", "Wqkv"))
                parameter.normal_(0, (1.5 if sharp else 1.0) / math.sqrt(parameter.shape[1]))
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.uniform_(0.5, 1.5)


def sentence_transformers() -> None:
    """LaBSE's pipeline on the tiny BERT: cls, Dense with tanh, Normalize; and what it embeds."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    torch.manual_seed(1)
    transformer = Transformer(str(GOLDEN / "bert"), max_seq_length=20)
    dense = Dense(32, 24, activation_function=torch.nn.Tanh())
    model = SentenceTransformer(modules=[transformer, Pooling(32, "cls"), dense, Normalize()], device="cpu")
    folder = GOLDEN / "labse"
    model.save(str(folder), create_model_card=False)
    np.save(folder / "golden.npy", model.encode(TEXTS))


def static() -> None:
    """Static embeddings as sentence-transformers and model2vec write them, and what these embed."""
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    rng = np.random.default_rng(2)
    tokenizer = Tokenizer.from_file(str(GOLDEN / "bert" / "tokenizer.json"))
    tokens = tokenizer.get_vocab_size()
    rows = rng.standard_normal((tokens, 24)).astype(np.float32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, rows), Normalize()], device="cpu")
    folder = GOLDEN / "static"
    model.save(str(folder), create_model_card=False)
    np.save(folder / "golden.npy", model.encode(TEXTS))
    # Tokens share 20 rows, and have weights.
    other = StaticModel(
        rows[:20], tokenizer, {"model_type": "model2vec"}, normalize=True, max_length=None,
        weights=rng.uniform(0.5, 2, tokens), token_mapping=rng.integers(0, 20, tokens),
    )  # fmt: skip
    folder = GOLDEN / "model2vec"
    other.save_pretrained(folder)
    # As its first versions wrote it.
    for name in ("modules.json", "README.md"):
        (folder / name).unlink()
    np.save(folder / "golden.npy", other.encode(TEXTS))


def laser(version: int) -> None:
    folder = GOLDEN / f"laser{version}"
    dictionary = json.loads((folder / "dictionary.json").read_text())
    torch.manual_seed(version)
    model = Lstm(len(dictionary), 12, 16, 3).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.5 if "bias" in name else 1.0 if "embed" in name else 1.5 / math.sqrt(parameter.shape[1])
            parameter.normal_(0, scale)
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})
    ids = np.random.default_rng(1).integers(4, len(dictionary), (len(LENGTHS), max(LENGTHS))).astype(np.int32)
    hidden, pooled = lstm_states(model, ids, np.array(LENGTHS))
    arrays = {"ids": ids, "lengths": np.int32(LENGTHS), "hidden": hidden, "pooled": pooled}
    np.savez_compressed(folder / "golden.npz", **arrays)
    codes = ("en", "de", "el", "zh", "ja")
    cases = [[text, code] for code in codes for text in lj.corpora.udhr("test", [code])[code][:4]]
    cases += [[text, "en"] for text in TEXTS]
    split = laserembeddings_pieces(folder) if version == 1 else laser_encoders_pieces(folder)
    golden = [[text, code, [dictionary.get(p, 3) for p in split(text, code).split()] + [2]] for text, code in cases]
    (folder / "golden_ids.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")


def laserembeddings_pieces(folder: Path):
    from laserembeddings.preprocessing import BPE, Tokenizer

    bpe = BPE(str(folder / "bpe.codes"), str(folder / "bpe.vocab"))
    return lambda text, code: bpe.encode_tokens(Tokenizer(code).tokenize(text))


def laser_encoders_pieces(folder: Path):
    root = Path(importlib.util.find_spec("laser_encoders").submodule_search_locations[0])
    # The package imports fairseq; its tokenizer does not.
    sys.modules["laser_encoders"] = types.ModuleType("laser_encoders")
    sys.modules["laser_encoders"].__path__ = [str(root)]
    from laser_encoders.laser_tokenizer import LaserTokenizer

    tokenizer = LaserTokenizer(folder / "sentencepiece.model")
    return lambda text, code: tokenizer.tokenize(text)


if __name__ == "__main__":
    others = {"labse": sentence_transformers, "static": static}
    for name in sys.argv[1:] or (*ARCHITECTURES, *others):
        if name in others:
            others[name]()
        elif name.startswith("laser"):
            laser(int(name[-1]))
        else:
            transformers_model(name)
