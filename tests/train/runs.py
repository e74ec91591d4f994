"""Runs of a training command: text for them, stopping one, and comparing what they logged."""

import json

import numpy as np
import pytest

from tests.dataset_hub import write_rows
from train.finetune.conllu_ner_xnli import ParsedSentence, SentencePair, TaggedSentence
from train.log import Log
from train.word_pairs.aligned_files import AlignedPair, write_aligned

__all__ = ["labelled", "log_of", "stop_at", "write_bitext", "write_labelled", "write_words"]

UPOS = {"a": "NOUN", "b": "VERB", "c": "ADJ", "d": "ADP", "e": "DET", "f": "PUNCT"}


def write_bitext(folder, codes=("de", "fr"), count=80):
    """Writes bitext of languages with English, so many pairs of each."""
    rng = np.random.default_rng(0)
    english = [" ".join(rng.choice(list("abcdefgh"), 9)) for _ in range(count)]
    for code in codes:
        rows = [("d", text, f"{text.translate(str.maketrans('ab', 'xy'))} {code}") for text in english]
        write_rows(folder, f"en-{code}.tsv", rows)


def write_words(folder):
    """Writes word-aligned text and plain text of two languages whose words are those of English, written otherwise."""
    (folder / "words").mkdir()
    rng = np.random.default_rng(0)
    for code, letters in (("de", "xy"), ("fr", "vw")):
        pairs, rows = [], []
        for length in rng.integers(3, 7, 110):
            english = tuple(rng.choice(list("abcdefgh"), length).tolist())
            other = tuple("".join(english).translate(str.maketrans("ab", letters)).upper().lower())
            order = rng.permutation(length)
            links = frozenset((int(word), at) for at, word in enumerate(order))
            pairs.append(AlignedPair(english, tuple(f"{other[word]}" for word in order), links))
            rows.append((" ".join(english), " ".join(other)))
        distinct = [pair._replace(other=tuple(f"{word}{letters[0]}" for word in pair.other)) for pair in pairs]
        write_aligned(folder / "words", code, "train", distinct[:90])
        write_aligned(folder / "words", code, "validation", distinct[90:])
        write_rows(folder, f"text/en-{code}.tsv", rows)


def labelled(task, count, seed=0, longest=4):
    """Sentences of letters whose labels follow from the letters alone; the short ones need one program."""
    rng = np.random.default_rng(seed)
    result = []
    for length in rng.integers(2, longest + 1, count):
        words = tuple(rng.choice(list("abcdef"), length).tolist())
        if task == "xnli":
            label = ("entailment", "neutral", "contradiction")["abc".find(words[0]) if words[0] in "abc" else 0]
            result.append(SentencePair(" ".join(words), words[0], label))
        elif task == "ner":
            tags = tuple("B-PER" if word == "a" else "B-LOC" if word == "b" else "O" for word in words)
            result.append(TaggedSentence(words, tags))
        else:
            # Each word depends on the first, which is the root.
            relations = ("root", *("obj" if word in "abc" else "obl" for word in words[1:]))
            heads = (0, *(1 for _ in words[1:]))
            result.append(ParsedSentence(words, tuple(UPOS[word] for word in words), heads, relations))
    return result


def write_labelled(folder, task, name, count, seed):
    """Writes sentences in the form of a task's files."""
    every = labelled(task, count, seed)
    path = folder / f"{name}.txt"
    if task == "xnli":
        path = folder / f"x.{name}.tsv"
        rows = ["language\tgold_label\tsentence1\tsentence2"]
        rows += [f"{code}\t{one.label}\t{one.premise}\t{one.hypothesis}" for code in ("en", "de") for one in every]
    elif task == "ner":
        rows = [line for one in every for line in (*map("\t".join, zip(*one, strict=True)), "")]
    else:
        rows = []
        for one in every:
            for number, (word, tag, head, relation) in enumerate(zip(*one, strict=True), 1):
                rows.append(f"{number}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
            rows.append("")
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def stop_at(main, arguments, log, lines):
    """Runs a command in this process, and stops it when its log has this many lines, as Ctrl-C would."""
    write = Log.write

    def stopping(self, *args, **more):
        write(self, *args, **more)
        if log.is_file() and len(log.read_text().splitlines()) >= lines:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "write", stopping)
        assert main(arguments) == 130


def log_of(folder):
    """Returns the lines of a run's log but for the time they took."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "steps_per_second"} for line in lines]
