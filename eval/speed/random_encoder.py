"""An encoder of published sizes with random weights, and random text, where no checkpoint can be downloaded."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from eval.aot.shapes import XLM_R, EncoderSize
from eval.speed.timing import import_torch

__all__ = ["random_sentences", "write_random_encoder"]

_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")


def write_random_encoder(folder: Path, size: EncoderSize, blocks: int | None = None) -> None:
    """Writes a checkpoint as Hugging Face lays it out, with a tokenizer for ``random_sentences``."""
    torch, _ = import_torch()
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    shape = replace(XLM_R[size], blocks=blocks or XLM_R[size].blocks)
    config = XLMRobertaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.blocks,
        num_attention_heads=shape.heads, intermediate_size=shape.intermediate, max_position_embeddings=shape.positions,
        type_vocab_size=shape.token_types, layer_norm_eps=shape.layer_norm_epsilon,
    )  # fmt: skip
    torch.manual_seed(0)
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    words = [*_SPECIALS, *(f"w{number}" for number in range(shape.vocabulary - len(_SPECIALS)))]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", model_max_length=512,
    ).save_pretrained(folder)  # fmt: skip


def random_sentences(count: int) -> list[str]:
    """Draws sentences of random words, of lengths as spread as those of the UDHR's paragraphs: 45 on average."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(3.0, 15.0, count).astype(int), 3, 400)
    words = XLM_R["base"].vocabulary - len(_SPECIALS)
    rows = (rng.integers(0, words, length) for length in lengths)
    return [" ".join(f"w{word}" for word in row) for row in rows]
