"""Examples: windows of long sentences, parses that are cut, and pairs as one row."""

import numpy as np
import pytest
from tokenizers import processors

import lsar_jax as lj
from lsar_jax.tokens.tokenizer import Specials
from lsar_jax.tokens.word_tokens import WordTokens
from tests.conftest import TINY
from tests.parity import GOLDEN
from train.finetune.conllu_ner_xnli import ParsedSentence, SentencePair, TaggedSentence
from train.finetune.examples import task_batch, windows
from train.finetune.ner import chinese_words
from train.finetune.task import ExampleOptions, Predictions
from train.finetune.tasks import TASKS


@pytest.mark.parametrize(("room", "overlap"), [(100, 64), (12, 4), (7, 64), (5, 2)])
def test_every_word_is_new_in_one_window(rng, room, overlap):
    sizes = rng.integers(1, 5, 20)
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    ids = np.arange(1000, 1000 + begins[-1], dtype=np.int32)
    tokens = WordTokens(np.concatenate([[1], ids, [2]]).astype(np.int32), *[begins[:-1] + 1] * 2)
    seen = []
    for own, positions, words in windows(tokens, Specials(1, 1), room, overlap):
        assert (own[0], own[-1]) == (1, 2)
        assert len(own) <= room + 2
        np.testing.assert_array_equal(own[1:-1], np.arange(own[1], own[1] + len(own) - 2))
        # Each word is whole, and stands where it says.
        np.testing.assert_array_equal(own[positions], 1000 + begins[words])
        assert positions[-1] + sizes[words[-1]] <= len(own) - 1
        context, most = positions[0] - 1, min(overlap, room // 2)
        # As much context as there is and as may be, but for words that would not fit after it.
        assert context == min(most, begins[words[0]]) or context == room - sizes[words[0]] < most
        seen += words.tolist()
    assert seen == list(range(20))


def test_a_word_that_is_longer_than_a_window_is_cut():
    long = WordTokens(np.array([1, *range(10, 30), 2], np.int32), *[np.array([1], np.int32)] * 2)
    [(ids, positions, _)] = windows(long, Specials(1, 1), 6)
    assert (len(ids), positions.tolist()) == (8, [1])


def test_parses_that_are_cut():
    """In training words beyond the length are gone, and words whose heads are gone do not count."""
    tokenizer = lj.load_encoder(str(TINY), layer=0).tokenizer
    task = TASKS["parsing"]
    sentence = ParsedSentence(("a", "b", "c", "d"), ("X",) * 4, (4, 1, 0, 3), ("det", "obj", "root", "obj"))
    labels = task.labels([sentence])
    assert labels == ("det", "obj", "root")
    [one] = task.examples([sentence], ExampleOptions(tokenizer, "en", 3, labels, True))
    assert one.positions.tolist() == [0, 1, 2, 3]
    assert one.counted.tolist() == [False, False, True, True]
    assert one.heads.tolist() == [0, 0, 1, 0]
    assert one.labels.tolist() == [-1, 0, 1, 2]


def test_words_that_do_not_count():
    """Of a long sentence the first words alone are parsed; of them and of tagged words, those with tokens count."""
    tokenizer = lj.load_encoder(str(TINY), layer=0).tokenizer
    words, tags = ("a", "\u200b", *"bcdefabcdefabcdefa"), ("B-PER", "I-PER", *["O"] * 9, *["B-LOC"] * 9)
    parsed = ParsedSentence(words, ("NOUN",) * 11 + ("PUNCT",) * 9, tuple(range(20)), ("root", *["obj"] * 19))
    task, labels = TASKS["parsing"], ("obj", "root")
    [one] = task.examples([parsed], ExampleOptions(tokenizer, "en", 12, labels))
    assert one.words.tolist() == [-1, 0, -1, *range(2, 12)]
    assert one.counted.tolist() == [word >= 0 for word in one.words]
    for heads, right in ((range(12), 10), ([0, 0, *range(2, 12)], 10), ([0, 1, 1, *range(3, 12)], 9)):
        outputs = [(np.log(np.eye(13)[[0, *heads]] + 1e-9), np.zeros((13, 13), int))]
        # The label is that of all words but the root.
        assert task.score(Predictions([parsed], [one], outputs, labels)) == {"UAS": 10 * right, "LAS": 10 * right - 10}
    for name, metric, sentence in (("pos", "accuracy", parsed), ("ner", "F1", TaggedSentence(words, tags))):
        task, labels = TASKS[name], tuple(sorted({*sentence.tags}))
        examples = task.examples([sentence], ExampleOptions(tokenizer, "en", 12, labels))
        outputs = [(np.append(one.labels, 0),) for one in examples]
        assert task.score(Predictions([sentence], examples, outputs, labels)) == {metric: 100}


def test_a_pair_is_one_row():
    tokenizer = lj.load_encoder(str(TINY), layer=0).tokenizer
    task = TASKS["xnli"]
    pairs = [SentencePair("a b", "c", "neutral"), SentencePair("a " * 30, "c d", "entailment")]
    first, second = task.examples(pairs, ExampleOptions(tokenizer, "en", 12, task.labels(pairs), True))
    batch = task_batch([first, second], 3, tokenizer.pad_id, 40)
    assert batch.lengths.tolist() == [[6], [14], [0]]
    assert batch.labels.tolist() == [[1], [0], [0]]
    assert batch.positions.shape == (3, 1)
    assert not batch.types.any()
    # As BERT has it, the second segment begins after the separator.
    ids = {name: tokenizer.backend.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    rule = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1", "special_tokens": list(ids.items())}
    tokenizer.backend.post_processor = processors.TemplateProcessing(**rule)
    [segments] = task.examples(pairs[:1], ExampleOptions(tokenizer, "en", 12, task.labels(pairs), True))
    np.testing.assert_array_equal(segments.ids, first.ids)
    assert task_batch([segments], 1, tokenizer.pad_id, 40).types[0].tolist()[:7] == [0, 0, 0, 0, 1, 1, 0]
    assert batch.counted.tolist() == [[True], [True], [False]]


def test_where_tokens_see_those_before_them_the_last_stands_for_all():
    """It stands for words, sentences and the root of a tree; a word that a window cuts has one in the window."""
    tokenizer = lj.load_encoder(str(GOLDEN / "qwen3"), layer=0).tokenizer
    sentence = ParsedSentence(("ab", "c", "def"), ("X",) * 3, (2, 0, 2), ("det", "root", "obj"))
    for last, positions in ((True, [6, 1, 2, 5]), (False, [6, 0, 2, 3])):
        options = ExampleOptions(tokenizer, "en", 10, ("det", "obj", "root"), True, last)
        [one] = TASKS["parsing"].examples([sentence], options)
        assert one.positions.tolist() == positions
    pair = SentencePair("a b", "c", "neutral")
    [one] = TASKS["xnli"].examples([pair], ExampleOptions(tokenizer, "en", 12, ("neutral",), True, True))
    assert (one.positions.tolist(), one.ids[one.positions].tolist()) == ([4], [0])
    assert len(one.ids) == 5
    tagged = [ParsedSentence(("ab", "c", "def"), ("X",) * 3, (2, 0, 2), ("det", "root", "obj"))]
    examples = TASKS["pos"].examples(tagged, ExampleOptions(tokenizer, "en", 2, ("X",), True, True))
    assert [one.positions.tolist() for one in examples] == [[1], [1], [1]]


def test_characters_of_chinese_are_joined_to_words():
    """As the splitter does, but for words of which a part is an entity."""
    pytest.importorskip("rjieba")
    sentence = TaggedSentence(tuple("我愿意接受北京的报价。"), ("O",) * 5 + ("B-LOC", "I-LOC") + ("O",) * 4)
    [joined] = chinese_words([sentence])
    assert "".join(joined.words) == "".join(sentence.words)
    assert joined.words[-4:] == ("北京", "的", "报价", "。")
    assert joined.tags[-4:] == ("B-LOC", "O", "O", "O")
    # Entities side by side, and a word of which a part is one, are not joined; bars and spaces are characters too.
    words = ("北", "京", "市", "|", "|", "|", "愿\u3000", "意")
    tags = ("B-LOC", "I-LOC", "O", "O", "O", "O", "O", "B-PER")
    [joined] = chinese_words([TaggedSentence(words, tags)])
    assert joined.words[:2] == ("北京", "市")
    assert joined.words[-2:] == ("愿\u3000", "意")
    assert "".join(joined.words) == "".join(words)
    assert [tag for tag in joined.tags if tag != "O"] == ["B-LOC", "B-PER"]
