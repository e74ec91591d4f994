"""An encoder of published sizes with random weights, and random text, where no checkpoint can be downloaded."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from eval.bench.encoder_configs import CONFIGS, sizes_of
from eval.bench.peers.timing import import_torch

__all__ = ["random_sentences", "write_random_encoder"]

_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
# Rows of the word embeddings: those of a published vocabulary would take a gigabyte, and no more time.
_WORDS = 32_768


def write_random_encoder(folder: Path, name: str, blocks: int | None = None) -> None:
    """Writes a checkpoint as Hugging Face lays it out, with a tokenizer for ``random_sentences``.

    Args:
      folder: where to write it.
      name: one of ``CONFIGS``, whose vocabulary is cut.
      blocks: number of blocks; by default, as many as published.
    """
    torch, _ = import_torch()
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    architecture, sizes = sizes_of(CONFIGS[name])
    sizes = replace(sizes, vocabulary=min(sizes.vocabulary, _WORDS))
    config = AutoConfig.for_model(**architecture.export_config(sizes, blocks or sizes.blocks, _SPECIALS.index("<pad>")))
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    words = [*_SPECIALS, *(f"w{number}" for number in range(sizes.vocabulary - len(_SPECIALS)))]
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
    """Draws sentences of random words, 45 on average, with lengths spread as in the UDHR's paragraphs."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(3.0, 15.0, count).astype(int), 3, 400)
    rows = (rng.integers(0, _WORDS - len(_SPECIALS), length) for length in lengths)
    return [" ".join(f"w{word}" for word in row) for row in rows]
