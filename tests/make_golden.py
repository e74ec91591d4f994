"""Makes ``golden/bert``: a tiny BERT checkpoint and the hidden states that torch gives it.

    pip install torch transformers
    python tests/make_golden.py

The weights are drawn so that every part shows in the output: kernels that keep activations at
unit scale, random biases and LayerNorm weights, a LayerNorm epsilon that matters.
"""

import json
import math
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

FOLDER = Path(__file__).parent / "golden" / "bert"
LENGTHS = [12, 7, 1, 9]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = tiny_bert()
    model.config.save_pretrained(FOLDER)
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()}, FOLDER / "model.safetensors", {"format": "pt"}
    )
    write_tokenizer()
    ids = np.random.default_rng(1).integers(5, model.config.vocab_size, (len(LENGTHS), max(LENGTHS)))
    hidden = hidden_states(model, ids, np.array(LENGTHS))
    np.savez_compressed(FOLDER / "golden.npz", ids=ids.astype(np.int32), lengths=np.int32(LENGTHS), hidden=hidden)


def tiny_bert() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        layer_norm_eps=1e-3,
        attn_implementation="eager",
    )
    model = BertModel(config, add_pooling_layer=True).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("LayerNorm.weight"):
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "embeddings" in name:
                parameter.normal_(0, 1)
            else:
                # Queries and keys are larger, so that attention is far from uniform.
                gain = 1.5 if "query" in name or "key" in name else 1.0
                parameter.normal_(0, gain / math.sqrt(parameter.shape[1]))
    return model


def hidden_states(model: BertModel, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns all hidden states, ``[layer, batch, length, dim]``."""
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    with torch.no_grad():
        output = model(
            torch.tensor(np.asarray(ids, np.int64)),
            attention_mask=torch.tensor(mask, dtype=torch.long),
            output_hidden_states=True,
        )
    return torch.stack(output.hidden_states).numpy()


def write_tokenizer() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(FOLDER / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40, "pad_token": "[PAD]"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    main()
