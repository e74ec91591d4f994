"""An encoder of published sizes with random weights, and random text, where no checkpoint can be downloaded."""

from pathlib import Path

import numpy as np

from eval.aot.arguments import XLM_R, EncoderSize

__all__ = ["random_sentences", "write_random_encoder"]

_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")


def write_random_encoder(folder: Path, size: EncoderSize) -> Path:
    """Writes a checkpoint as Hugging Face lays it out, with a tokenizer that knows the words of ``random_sentences``.

    Raises:
      ImportError: torch is not installed.
    """
    try:
        import torch
        from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel
    except ImportError as error:
        raise ImportError("torch is not installed: pip install torch") from error
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    own = XLM_R[size]
    config = XLMRobertaConfig(
        vocab_size=own.vocabulary, hidden_size=own.hidden, num_hidden_layers=own.blocks, num_attention_heads=own.heads,
        intermediate_size=own.intermediate, max_position_embeddings=own.positions, type_vocab_size=own.token_types,
        layer_norm_eps=own.layer_norm_epsilon,
    )  # fmt: skip
    torch.manual_seed(0)
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    words = [*_SPECIALS, *(f"w{number}" for number in range(own.vocabulary - len(_SPECIALS)))]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", model_max_length=512,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def random_sentences(count: int) -> list[str]:
    """Returns sentences of random words, of lengths as spread as those of the UDHR's paragraphs: 45 on average."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(3.0, 15.0, count).astype(int), 3, 400)
    words = XLM_R["base"].vocabulary - len(_SPECIALS)
    rows = (rng.integers(0, words, length) for length in lengths)
    return [" ".join(f"w{word}" for word in row) for row in rows]
