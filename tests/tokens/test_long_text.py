"""A long text is cut before it is tokenized, where the tokens of its beginning are the first of the whole."""

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

import lsar_jax as lj
from lsar_jax.checkpoints.bundled import open_bundled
from lsar_jax.tokens import tokenizer as module
from lsar_jax.tokens.long_text import _WORDS, cut_place
from lsar_jax.tokens.tokenizer import FastTokenizer
from tests.parity import GOLDEN

FILES = sorted(GOLDEN.glob("*/tokenizer.json"))
ODD = [
    "  ", "\n", " \n", "\u3000", "\u00a0", " \u0301", "\u0d4e ", "ﹰ ", "e\u0301 ", "a b", "<mask>", "[MASK] ", " 12 ",
    "3.", "'s ", "▁", "x" * 60,
]  # fmt: skip


def trained(split, normalizer=None, added=()):
    """Byte-level BPE whose merges may cross spaces, if nothing splits there."""
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=alphabet, show_progress=False)
    text = ["he sees a bird, she sees a word"] * 9 + lj.corpora.udhr("test", ["en"])["en"]
    backend.train_from_iterator(text, trainer)
    backend.add_tokens([AddedToken(token, lstrip=True, rstrip=True) for token in added])
    return backend


def marked(*merges):
    """BPE that sees a mark in place of a space, as Gemma's."""
    pieces = ["<unk>", *"▁abcdefghijklmnopqrstuvwxyz'.,1", *map("".join, merges)]
    vocabulary = {piece: row for row, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, list(merges), unk_token="<unk>", fuse_unk=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    return backend


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


CUT = {
    "words": lambda: trained(split(_WORDS), normalizers.NFC(), ["<mask>", "bird"]),
    "gpt": lambda: trained(pre_tokenizers.ByteLevel(False), normalizers.NFKC()),
    "marked": lambda: marked(("t", "h"), ("th", "e"), ("▁", "the")),
    "bundled": lambda: open_bundled().tokenizer.backend,
}
WHOLE = {
    "a split across spaces": lambda: trained(split(r"\w+ \w+")),
    "no split": lambda: trained(split("never")),
    "a normalizer across spaces": lambda: trained(split(_WORDS), normalizers.Replace(Regex(r"\w+ (?=\w)"), "")),
    "a token with a space": lambda: trained(split(_WORDS), None, ["a b"]),
    "a merge across spaces": lambda: marked(("e", "▁"), ("h", "e▁"), ("t", "he▁")),
}
KINDS = {path.parent.name: lambda path=path: Tokenizer.from_file(str(path)) for path in FILES} | CUT | WHOLE


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_are_those_of_the_whole(rng, monkeypatch, kind):
    backend = KINDS[kind]()
    assert (cut_place(backend) is None) == (kind in WHOLE)
    texts = lj.corpora.udhr("test", ["en", "hi", "zh", "ar"]).values()
    words = [word for text in texts for word in " ".join(text).split()]
    texts = [" ".join(rng.choice(words, 40)) for _ in range(10)]
    texts += ["".join(rng.choice([*ODD, *["abe", "the", "sees", "bird", ""], " "], 200)) for _ in range(100)]
    cut = FastTokenizer(backend, 0, 512)
    assert (cut._beginning(texts[0], 9) != texts[0]) == (kind not in WHOLE)
    for length, characters in ((12, 1), (40, 2)):
        monkeypatch.setattr(module, "_CHARACTERS", characters)
        ids, truncated = cut(texts, length)
        whole = backend.encode_batch_fast(texts)
        assert [row.tolist() for row in ids] == [encoding.ids for encoding in whole]
        assert truncated == sum(bool(encoding.overflowing) for encoding in whole)
