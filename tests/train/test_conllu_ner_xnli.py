"""Readers of labelled text: hand-written files, datasets, their errors, and the measured data where they are there."""

import re
from pathlib import Path

import pytest

from tests.dataset_hub import write_rows
from tests.optional import need
from train.finetune.conllu_ner_xnli import (
    SentencePair,
    TaggedSentence,
    is_dataset,
    language_of,
    read_inference,
    read_parsed,
    read_tagged,
)

CONLLU = """\
# text = im Haus sagt er
1-2	im	_	_	_	_	_	_	_	_
1	in	in	ADP	_	_	3	case	_	_
2	dem	der	DET	_	_	3	det	_	_
3	Haus	Haus	NOUN	_	_	4	obl:loc	_	_
3.1	x	_	_	_	_	_	_	_	_
4	sagt	sagen	VERB	_	_	0	root	_	_

1	Ja	_	_	_	_	0	root	_	_
"""


def test_conllu(tmp_path):
    (tmp_path / "de-a.conllu").write_text(CONLLU, encoding="utf-8")
    first, second = read_parsed(tmp_path / "de-a.conllu")["de"]
    words, tags = ("in", "dem", "Haus", "sagt"), ("ADP", "DET", "NOUN", "VERB")
    assert first == (words, tags, (3, 3, 4, 0), ("case", "det", "obl", "root"))
    assert second == (("Ja",), ("_",), (0,), ("root",))


def test_tagged(tmp_path):
    path = tmp_path / "text.tsv"
    path.write_text("Jo\tB-PER\n \u00a0\tO\n\n\nin\tO\nUlm\tB-LOC", encoding="utf-8")
    expected = [TaggedSentence(("Jo", " \u00a0"), ("B-PER", "O")), TaggedSentence(("in", "Ulm"), ("O", "B-LOC"))]
    assert read_tagged(path) == {"": expected}
    path.write_text("en:Jo\tB-PER\nen::\tO\n")
    assert read_tagged(path)[""][0].words == ("Jo", ":")
    path.write_text("en:Jo\tB-PER\n:\tO\n")
    assert read_tagged(path)[""][0].words == ("en:Jo", ":")


def test_universal_ner_as_released(tmp_path):
    """Three or five columns; # as a comment and as a word; B-O and OTH are no entities, as in its own reader."""
    path = tmp_path / "en_ewt-ud-dev.iob2"
    path.write_text(
        "# newdoc id = a\n# sent_id = a-1\n# text = Jo in #1\tUlm\n1\tJo\tB-PER\t-\tann\n2\tin\tB-O\t-\tann\n3\t#\tO\n"
        "4\tUlm\tB-LOC\t-\tann\n\t\n# sent_id = a-2\n# text = a\n1\tO\tB-OTH\t-\tann\n2\t_\tI-OTH\t-\tann\n\n# end\n"
    )
    tagged = TaggedSentence(("Jo", "in", "#", "Ulm"), ("B-PER", "O", "O", "B-LOC"))
    assert read_tagged(path) == {"en": [tagged, TaggedSentence(("O", "_"), ("O", "O"))]}
    path = tmp_path / "wikiann-simple.bio"
    path.write_text("simple:Jo\tB-PER\nsimple::\tO\nsimple:#\tO\n")
    assert read_tagged(path) == {"en": [TaggedSentence(("Jo", ":", "#"), ("B-PER", "O", "O"))]}


def test_inference(tmp_path):
    table = tmp_path / "x.dev.tsv"
    table.write_text("language\tgold_label\tsentence1\tsentence2\nde\tneutral\ta\tb\nsw\tentailment\tc\td\n")
    expected = {"de": [SentencePair("a", "b", "neutral")], "sw": [SentencePair("c", "d", "entailment")]}
    assert read_inference(table) == expected
    training = tmp_path / "multinli.train.en.tsv"
    training.write_text("premise\thypo\tlabel\na\tb\tcontradictory\n")
    assert read_inference(training) == {"en": [SentencePair("a", "b", "contradiction")]}


NLI = "premise\thypo\tlabel\n"


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        *((read_parsed, CONLLU.replace(old, new), rf"line {line} is not a word of CoNLL-U, .* columns, the ID {id}")
          for old, new, line, id in (
              ("3\tHaus", "4\tHaus", 5, 3), ("3\tdet", "x\tdet", 4, 2), ("\tobl:loc\t_\t_", "\tobl:loc\t_", 5, 3),
              ("NOUN", "NN", 5, 3), ("NOUN", "noun", 5, 3), ("NOUN", "", 5, 3))),
        *((read_parsed, CONLLU.replace(old, new), f"ends at line 7 has the HEADs {heads}, which are not a tree")
          for old, new, heads in (
              ("0\troot\t_\t_\n\n", "9\troot\t_\t_\n\n", "3 3 4 9"), ("3\tdet", "2\tdet", "3 2 4 0"),
              ("4\tobl:loc", "0\troot", "3 3 0 0"), ("0\troot\t_\t_\n\n", "3\tobj\t_\t_\n\n", "3 3 4 3"),
              ("4\tobl:loc", "2\tobl", "3 3 2 0"))),
        (read_parsed, CONLLU.split("\n\n")[1], "has no parts of speech"),
        (read_parsed, CONLLU.replace("obl:loc", "_"), "at line 7 has a word without FORM or DEPREL: in dem Haus sagt"),
        *((read_parsed, re.sub(r"(?m)^(\d)\t(\w+)", put, CONLLU), f"lacks the words of {count} of 2 sentences, most of")
          for put, count in ((r"\1\t_", 2), (lambda word: f"{word[1]}\t{'Ja' if word[2] == 'Ja' else '_'}", 1))),
        (read_tagged, "_\tO\n\n_\tB-LOC\n", "lacks the words of 2 of 2 sentences"),
        (read_tagged, "Jo\tB-PER\n\n_\tO\n_\tB-LOC\n.\tO\n", "lacks the words of 1 of 2 sentences"),
        (read_tagged, "Jo\tO\nda\tO\n", "has no named entities"),
        (read_tagged, "\n", "or no sentences"),
        *((read_tagged, f"ok\tO\n{line}\n", "en.tsv, line 2 is not a word, a tab and a tag such as O or B-PER")
          for line in ("Jo B-PER", "Jo\tPER", "Jo\tB-PER ", "\tO", "Jo\tx\tO")),
        (read_inference, "a\tb\nc\td\n", r"line 2 has {'a': 'c', 'b': 'd'}; expected columns sentence1"),
        (read_inference, f"{NLI}a\tb\n", "line 2 has 2 fields, but the header has 3"),
        (read_inference, f"{NLI}a\tb\tyes\n", "line 2 has .*'label': 'yes'}; expected columns premise"),
        (read_inference, NLI, "has no pairs"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path, read, text, message):
    (tmp_path / "en.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "en.tsv")


@pytest.fixture
def hub(tmp_path):
    """Writes configurations of a dataset in the layout of the Hub."""

    def write(split="validation", **configs):
        for config, rows in configs.items():
            write_rows(tmp_path, f"{config}/{split}.jsonl", rows)
        return f"hub:{tmp_path}"

    return write


NER = {"tokens": ["Jo", "da"], "ner_tags": [1, 0]}


def test_datasets(hub):
    pairs = [
        {"premise": "a", "hypothesis": "b", "label": 2}, {"premise": "c", "hypothesis": "d", "label": "neutral"},
    ]  # fmt: skip
    words = {"tokens": ["du", "de", "le", "x"], "upos": [13, 2, "DET", 0], "head": ["None", "3", "3", "0"]}
    name = hub(de=[NER], en=pairs, fr_gsd=[words | {"deprel": ["_", "case", "det:poss", "root"]}])
    assert read_tagged(f"{name}#de", "dev") == {"de": [TaggedSentence(("Jo", "da"), ("B-PER", "O"))]}
    expected = [SentencePair("a", "b", "contradiction"), SentencePair("c", "d", "neutral")]
    assert read_inference(f"{name}#en", "dev") == {"en": expected}
    [parsed] = read_parsed(f"{name}#fr_gsd", "dev")["fr"]
    assert parsed == (("de", "le", "x"), ("ADP", "DET", "NOUN"), (3, 3, 0), ("case", "det", "root"))
    assert is_dataset(name)
    assert not is_dataset(Path("data/x"))


@pytest.mark.parametrize(
    ("read", "end", "part", "message"),
    [
        (read_tagged, "", "dev", "names no configuration; write hub:"),
        (read_tagged, "#sw", "dev", "has no configuration 'sw'; it has 0_gsd, de, en"),
        (read_tagged, "#de", "train", "has no split train; it has validation"),
        (read_tagged, "#en", "dev", "has no column tokens; it has premise, hypothesis, label"),
        (read_inference, "#de", "dev", "has no column premise"),
        (read_tagged, "#0_gsd", "dev", "'0_gsd' of .* is not named after a language"),
    ],
)
def test_datasets_that_do_not_fit(hub, read, end, part, message):
    name = hub(**{"de": [NER], "0_gsd": [NER], "en": [{"premise": "a", "hypothesis": "b", "label": 2}]})
    with pytest.raises(ValueError, match=message):
        read(name + end, part)


def test_the_only_configuration_is_read_for_a_language_only_where_its_columns_have_languages(hub):
    with pytest.raises(ValueError, match="has no configuration 'de'; it has en"):
        read_tagged(f"{hub('test', en=[NER | {'meta': {'a': 1}}])}#de", "test")


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (read_tagged, {"tokens": ["a"], "ner_tags": [7]}, "has the label 7; it must be one of O, B-PER"),
        (read_tagged, {"tokens": ["a", "b"], "ner_tags": [0]}, r"row 1 has 2 words and \[1\] labels"),
        (read_parsed, {"tokens": ["a", "b"], "upos": [0, 0], "head": ["0", "3"], "deprel": ["x", "x"]},
         "row 1 has the HEADs 0 3, which are not a tree"),
        (read_tagged, {"tokens": ["a", None], "ner_tags": [1, 0]}, "or a word that is no text:"),
        (read_tagged, {"tokens": ["a"], "ner_tags": [0]}, "has no named entities"),
        (read_inference, {"premise": "a", "hypothesis": None, "label": 0}, "row 1 has None, which is not text"),
        (read_parsed, {"tokens": ["a"], "upos": [0], "head": ["0", "0"], "deprel": ["x"]},
         r"has 1 words and \[1, 2, 1\] labels"),
    ],
)  # fmt: skip
def test_dataset_rows_are_checked_as_files_are(hub, read, row, message):
    with pytest.raises(ValueError, match=message):
        read(f"{hub('test', de=[row])}#de", "test")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("de_pud-ud-test500.conllu", "de"), ("dev-de.tsv", "de"), ("en-dev.tsv", "en"), ("zh-dev.tsv", "zh"),
        ("de.tsv", "de"), ("dev-zh-Hant.tsv", "zh-Hant"), ("multinli.train.en.tsv", "en"), ("hsb_ufal-ud-dev.x", "hsb"),
        ("x-all.tsv", ""), ("uner-pos.tsv", ""), ("wsj-dev.txt", ""),
    ],
)  # fmt: skip
def test_the_language_that_a_file_is_named_after(name, language):
    assert language_of(f"en/{name}") == language
    with pytest.raises(ValueError, match="is named after the languages en and de; rename it"):
        language_of("en-de.tsv")


def test_prepared_datasets(tmp_path):
    """With the features of the published ones."""
    tfds = need("tensorflow_datasets")
    sequence, text, names = tfds.features.Sequence, tfds.features.Text, tfds.features.ClassLabel

    def build(name, version, features, row):
        class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            VERSION = tfds.core.Version("1.0.0")
            BUILDER_CONFIGS = (tfds.core.BuilderConfig(name=version),)

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

            def _split_generators(self, dl_manager):
                return {"validation": iter([(0, row)])}

            def _generate_examples(self):
                raise NotImplementedError

        Builder.name = name
        Builder(data_dir=tmp_path, file_format="array_record").download_and_prepare()

    upos = names(names=["ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN"])
    features = {name: sequence(upos if name == "upos" else text()) for name in ("tokens", "upos", "head", "deprel")}
    row = {"tokens": ["le", "x"], "upos": ["DET", "NOUN"], "head": ["2", "0"], "deprel": ["det", "root"]}
    build("universal_dependencies", "de_gsd", features, row)
    features = {
        "premise": tfds.features.Translation(languages=["de", "en"]),
        "hypothesis": tfds.features.TranslationVariableLanguages(languages=["de", "en"]),
        "label": names(names=["entailment", "neutral", "contradiction"]),
    }
    pair = {"premise": {"de": "ja", "en": "yes"}, "hypothesis": {"de": "nein", "en": "no"}, "label": "contradiction"}
    build("xnli", "plain_text", features, pair)
    prepared = f"tfds:{tmp_path}"
    # Their numbers are others than on the Hub.
    [parsed] = read_parsed(f"{prepared}/universal_dependencies#de_gsd", "dev")["de"]
    assert parsed == (("le", "x"), ("DET", "NOUN"), (2, 0), ("det", "root"))
    expected = {"de": [SentencePair("ja", "nein", "contradiction")]}
    assert read_inference(f"{prepared}/xnli/plain_text#de", "dev") == expected
    with pytest.raises(ValueError, match="'en': 'yes'}, which is not text in 'fr'"):
        read_inference(f"{prepared}/xnli/plain_text#fr", "dev")
    with pytest.raises(FileNotFoundError, match="there is no prepared dataset at .*/nothing"):
        read_tagged(f"{prepared}/nothing#fr", "dev")
