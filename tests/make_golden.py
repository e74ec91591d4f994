"""Makes ``golden/``: tiny checkpoints of every architecture, and what the reference programs make of them.

    pip install torch sentence-transformers sacremoses sentencepiece subword-nmt
    pip install --no-deps laserembeddings laser_encoders
    pip install transliterate unicategories requests tqdm
    pip install --no-deps model2vec joblib
    python -m tests.make_golden

Hidden states are those of transformers in torch, of torch's LSTM for LASER. The weights are drawn so
that every part shows in the output: kernels that keep activations at unit scale, random
biases and LayerNorm weights, a LayerNorm epsilon that matters. Token ids of LASER1 are those of
laserembeddings 1.1.2, of LASER2 those of laser_encoders 0.0.2 (its tokenizer's file alone: the
package needs fairseq), over BPE codes and a SentencePiece model learned from the UDHR.
"""

import importlib.util
import io
import json
import math
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    EmbeddingGemma2TextConfig,
    EuroBertConfig,
    EuroBertModel,
    Gemma3TextConfig,
    GteConfig,
    LlamaConfig,
    M2M100Config,
    Ministral3Config,
    ModernBertConfig,
    NllbTokenizer,
    NomicBertConfig,
    Qwen2Config,
    Qwen2Tokenizer,
    Qwen3Config,
    XLMConfig,
    XLMModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

import lsar_jax as lj
from tests.parity import LENGTHS, TEXTS, Lstm, hidden_states, lstm_states

GOLDEN = Path(__file__).parent / "golden"
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
PLAIN = {"vocab_size": 64, "max_position_embeddings": 40, **SIZES}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def bert() -> None:
    config = BertConfig(layer_norm_eps=1e-3, **PLAIN)
    folder = save(BertModel(config), "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    write_tokenizer(folder, tokenizer, ("[CLS]", 2), ("[SEP]", 3), "[PAD]")


def xlm_r() -> None:
    # Positions are counted from the padding id, 1: 40 tokens need 42 rows.
    config = XLMRobertaConfig(
        vocab_size=64, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-3, **SIZES
    )
    folder = save(XLMRobertaModel(config), "xlm-roberta")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - len(piece) / 2) for piece in pieces], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    write_tokenizer(folder, tokenizer, ("<s>", 0), ("</s>", 2), "<pad>")


def xlm() -> None:
    sizes = {"vocab_size": 64, "emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 40}
    rows = {"de": 0, "en": 1, "zh": 2}
    config = XLMConfig(**sizes, layer_norm_eps=1e-3, n_langs=3, use_lang_emb=True, lang2id=rows)
    plain = XLMConfig(**sizes, layer_norm_eps=1e-3, gelu_activation=False, sinusoidal_embeddings=True)
    for folder in (save(XLMModel(config), "xlm"), save(XLMModel(plain), "xlm-sinusoidal")):
        special = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(6))]
        pieces = [*special, *LETTERS, *(f"{letter}</w>" for letter in LETTERS), "th", "the</w>"]
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
        (folder / "vocab.json").write_text(json.dumps(vocabulary) + "\n")
        (folder / "merges.txt").write_text("t h 20\nth e</w> 10\n")
        settings = {"tokenizer_class": "XLMTokenizer", "model_max_length": 40, "do_lowercase_and_remove_accent": True}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def decoder(name: str, config: type, *, theta: float = 100.0, scaling: dict | None = None, **options) -> None:
    rotary = {"rope_type": "default", "rope_theta": theta} | (scaling or {})
    sizes = {"vocab_size": 64, "max_position_embeddings": 40, "num_key_value_heads": 2, **SIZES}
    given = config(**sizes, rms_norm_eps=1e-3, pad_token_id=0, rope_parameters=rotary, **options)
    folder = save(AutoModel.from_config(given), name)
    mark = "Ġ" if name == "qwen2" else "##"
    words = ["[PAD]", "[UNK]", "[MASK]", *LETTERS, *(f"{mark}{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if name == "qwen2":
        # transformers splits the text of every model of this type with this tokenizer.
        pieces = {word: i for i, word in enumerate([*words, "Ġ"])}
        tokenizer = Qwen2Tokenizer(pieces, [("Ġ", letter) for letter in LETTERS]).backend_tokenizer
    # As in Qwen3, the token of padding is the one at the end.
    write_tokenizer(folder, tokenizer, None, ("[PAD]", 0), "[PAD]")


def decoders() -> None:
    # Some planes are as they were, some are scaled, and some are between.
    llama3 = {"rope_type": "llama3", "low_freq_factor": 0.5, "high_freq_factor": 1.5, "factor": 4.0}
    yarn = {"rope_type": "yarn", "beta_fast": 1.0, "beta_slow": 0.25, "factor": 8.0, "llama_4_scaling_beta": 0.5}
    yarn |= {"mscale": 0.5, "mscale_all_dim": 2.0, "original_max_position_embeddings": 5}
    decoder("llama", LlamaConfig, scaling=llama3 | {"original_max_position_embeddings": 10}, theta=10.0)
    decoder("ministral3", Ministral3Config, scaling=yarn, theta=10.0, head_dim=16, is_causal=False)
    decoder("qwen2", Qwen2Config, is_causal=False)
    decoder("qwen3", Qwen3Config, head_dim=16, is_causal=True)
    decoder("qwen3-both", Qwen3Config, head_dim=16, is_causal=False)


def distilbert() -> None:
    sizes = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 40}
    save_with_words(DistilBertModel(DistilBertConfig(vocab_size=64, **sizes)), "distilbert")


def eurobert() -> None:
    config = EuroBertConfig(
        vocab_size=64, max_position_embeddings=40, num_key_value_heads=2, rms_norm_eps=1e-3, pad_token_id=0,
        bos_token_id=2, eos_token_id=0, mask_token_id=4,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0}, **SIZES,
    )  # fmt: skip
    save_with_words(EuroBertModel(config), "eurobert")


def modernbert() -> None:
    config = ModernBertConfig(
        vocab_size=64, max_position_embeddings=40, norm_eps=1e-3, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3, local_attention=8, rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
        },
        **{**SIZES, "num_hidden_layers": 4},
    )  # fmt: skip
    save_with_words(AutoModel.from_config(config), "modernbert")


def gte() -> None:
    # As converted from an "ntk" scaling by 8 of the base 20.
    rotary = {"rope_type": "linear", "rope_theta": 160.0, "factor": 8 ** (2 / 8)}
    model = AutoModel.from_config(GteConfig(layer_norm_eps=1e-3, rope_parameters=rotary, pad_token_id=0, **PLAIN))
    save_with_words(model, "gte")
    # With the names that checkpoints have.
    model.save_pretrained(GOLDEN / "gte")


def nomic_bert() -> None:
    rotary = {"rope_type": "default", "rope_theta": 100.0}
    model = AutoModel.from_config(NomicBertConfig(layer_norm_eps=1e-3, rope_parameters=rotary, **PLAIN))
    save_with_words(model, "nomic_bert")
    model.save_pretrained(GOLDEN / "nomic_bert")


def save_with_words(model: torch.nn.Module, name: str) -> None:
    """Saves a model, with the tokenizer of the tiny BERT."""
    folder = save(model, name)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(GOLDEN / "bert" / file, folder / file)


def gemma3(*, causal: bool) -> None:
    # Full blocks of the large multimodal models scale their positions. Both windows are of three tokens before.
    full = {"rope_type": "linear", "factor": 2.0} if causal else {"rope_type": "default"}
    rope = {
        "full_attention": {**full, "rope_theta": 1000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
    }
    config = Gemma3TextConfig(
        vocab_size=64, max_position_embeddings=40, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3,
        query_pre_attn_scalar=24, sliding_window=4 if causal else 6, use_bidirectional_attention=not causal,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=rope, **SIZES,
    )  # fmt: skip
    save_with_pieces(AutoModel.from_config(config), "gemma3-causal" if causal else "gemma3")


def embedding_gemma2() -> None:
    rope = {
        "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
    }
    config = EmbeddingGemma2TextConfig(
        vocab_size=64, max_position_embeddings=40, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-3,
        hidden_size_per_layer_input=20, embedding_dim=24, sliding_window=3, sliding_window_pattern=3,
        global_head_dim=24, num_global_key_value_heads=1, rope_parameters=rope, **SIZES,
    )  # fmt: skip
    save_with_pieces(AutoModel.from_config(config), "embedding-gemma2")


def save_with_pieces(model: torch.nn.Module, name: str) -> None:
    """Saves a model, with a tokenizer as of Gemma."""
    folder = save(model, name)
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = [("▁", letter) for letter in LETTERS]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    write_tokenizer(folder, tokenizer, ("<bos>", 2), ("<eos>", 1), "<pad>")


def save(model: torch.nn.Module, name: str) -> Path:
    folder = GOLDEN / name
    folder.mkdir(parents=True, exist_ok=True)
    draw(model.eval())
    model.config.save_pretrained(folder)
    state = {key: value.contiguous() for key, value in model.state_dict().items() if "position_ids" not in key}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 64, (len(LENGTHS), max(LENGTHS))).astype(np.int32)
    languages = rng.integers(0, 3, len(LENGTHS)).astype(np.int32)
    hidden, pooled = hidden_states(model, ids, np.array(LENGTHS), languages)
    arrays = {"ids": ids, "lengths": np.int32(LENGTHS), "languages": languages, "hidden": hidden, "pooled": pooled}
    np.savez_compressed(folder / "golden.npz", **arrays)
    return folder


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


def write_tokenizer(folder: Path, tokenizer: Tokenizer, first: tuple | None, last: tuple, pad: str) -> None:
    single = f"{first[0]} $A {last[0]}" if first else f"$A {last[0]}"
    special = [token for token in (first, last) if token]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40, "pad_token": pad}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


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


def m2m_100() -> None:
    config = M2M100Config(
        vocab_size=64, d_model=32, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=64,
        max_position_embeddings=40, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
    )  # fmt: skip
    folder = save(M2M100Encoder(config), "m2m-100")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    languages = ["eng_Latn", "deu_Latn", "kor_Hang", "pes_Arab", "prs_Arab", "zho_Hans"]
    vocabulary, merges = {piece: i for i, piece in enumerate(pieces)}, [("▁", letter) for letter in LETTERS]
    tokenizer = NllbTokenizer(vocabulary, merges, extra_special_tokens=languages, model_max_length=40)
    tokenizer.save_pretrained(folder)
    reference = [[text, name, ids(tokenizer, text, name)] for text in TEXTS for name in languages]
    (folder / "golden_ids.json").write_text(json.dumps(reference, ensure_ascii=False, indent=0) + "\n")


def ids(tokenizer: NllbTokenizer, text: str, language: str) -> list[int]:
    tokenizer.src_lang = language
    return tokenizer(text, truncation=True, max_length=40)["input_ids"]


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
    texts = [text for texts in lj.corpora.udhr(languages=["en", "de", "el", "zh"]).values() for text in texts]
    folder = GOLDEN / f"laser{version}"
    folder.mkdir(parents=True, exist_ok=True)
    dictionary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    for piece in (learn_bpe if version == 1 else learn_sentencepiece)(folder, texts):
        dictionary.setdefault(piece, len(dictionary))
    (folder / "dictionary.json").write_text(json.dumps(dictionary, ensure_ascii=False) + "\n")
    config = {"vocab_size": len(dictionary), "embedding_size": 12, "hidden_size": 16, "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps({"model_type": "laser", **config}, indent=2) + "\n")

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


def learn_bpe(folder: Path, texts: list[str]) -> list[str]:
    """Writes codes and vocabulary as fastBPE does, and returns the pieces."""
    from collections import Counter

    from laserembeddings.preprocessing import BPE, Tokenizer
    from subword_nmt.learn_bpe import learn_bpe

    words = [Tokenizer("en").tokenize(text) for text in texts]
    codes = io.StringIO()
    learn_bpe(io.StringIO("\n".join(words)), codes, num_symbols=300)
    pairs = codes.getvalue().splitlines()[1:]
    (folder / "bpe.codes").write_text("".join(f"{pair} {1000 - i}\n" for i, pair in enumerate(pairs)))
    (folder / "bpe.vocab").write_text("")
    bpe = BPE(str(folder / "bpe.codes"), io.StringIO(""))
    bpe.bpe.vocab = None
    counts = Counter(piece for line in words for piece in bpe.encode_tokens(line).split())
    # The rarest are left out, so that some pieces are split further and some are unknown.
    kept = [(piece, count) for piece, count in counts.most_common() if count > 2]
    (folder / "bpe.vocab").write_text("".join(f"{piece} {count}\n" for piece, count in kept))
    return [piece for piece, _ in kept]


def learn_sentencepiece(folder: Path, texts: list[str]) -> list[str]:
    import sentencepiece

    written = io.BytesIO()
    options = {"vocab_size": 900, "character_coverage": 0.98, "normalization_rule_name": "identity", "minloglevel": 2}
    lowered = iter([text.lower() for text in texts])
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lowered, model_writer=written, **options)
    (folder / "sentencepiece.model").write_bytes(written.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [model.id_to_piece(i) for i in range(3, model.get_piece_size()) if i % 50]


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
    for make in (bert, xlm_r, xlm, distilbert, eurobert, modernbert, embedding_gemma2, gte, nomic_bert):
        make()
    decoders()
    for flag in (False, True):
        gemma3(causal=flag)
    sentence_transformers()
    m2m_100()
    static()
    laser(1)
    laser(2)
