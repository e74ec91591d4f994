"""Readers of labelled text: hand-written files, their errors, and the measured data where they are there."""

import json
import shutil
from pathlib import Path

import pytest

from lsar_jax.corpora.labelled import (
    LABELS,
    SentencePair,
    TaggedSentence,
    dataset_language,
    inference_rows,
    is_dataset,
    language_of_file,
    parsed_rows,
    read_conllu,
    read_inference,
    read_tagged,
    tagged_rows,
)
from tests.optional import need

DATA = Path(__file__).parents[2] / "data"

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
    (tmp_path / "a.conllu").write_text(CONLLU, encoding="utf-8")
    first, second = read_conllu(tmp_path / "a.conllu")
    assert first.words == ("in", "dem", "Haus", "sagt")
    assert first.tags == ("ADP", "DET", "NOUN", "VERB")
    assert first.heads == (3, 3, 4, 0)
    assert first.relations == ("case", "det", "obl", "root")
    assert (second.words, second.tags) == (("Ja",), ("_",))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3\tHaus", "4\tHaus", "a.conllu, line 5 has the ID '4', expected 3"),
        ("0\troot\t_\t_\n\n", "9\troot\t_\t_\n\n", "ends at line 7, word 4 has the HEAD 9, but a head is 0 or another"),
        ("3\tdet", "2\tdet", "word 2 has the HEAD 2, but a head is 0 or another word, from 1 to 4"),
        ("3\tdet", "x\tdet", "line 4 has the HEAD 'x', which is not a number"),
        ("\tobl:loc\t_\t_", "\tobl:loc\t_", "line 5 has 9 columns, not the 10 of CoNLL-U"),
    ],
)
def test_damaged_conllu(tmp_path, old, new, message):
    (tmp_path / "a.conllu").write_text(CONLLU.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_conllu(tmp_path / "a.conllu")


def test_no_sentences(tmp_path):
    (tmp_path / "a").write_text("# nothing\n\n")
    for read in (read_conllu, lambda path: read_tagged(path.with_name("b"))):
        (tmp_path / "b").write_text("\n")
        with pytest.raises(ValueError, match="has no sentences"):
            read(tmp_path / "a")


def test_tagged(tmp_path):
    (tmp_path / "a.tsv").write_text("Jo\tB-PER\n \u00a0\tO\n\n\nin\tO\nUlm\tB-LOC", encoding="utf-8")
    assert read_tagged(tmp_path / "a.tsv") == [
        TaggedSentence(("Jo", " \u00a0"), ("B-PER", "O")), TaggedSentence(("in", "Ulm"), ("O", "B-LOC")),
    ]  # fmt: skip
    (tmp_path / "a.tsv").write_text("en:Jo\tB-PER\nen::\tO\n")
    assert read_tagged(tmp_path / "a.tsv")[0].words == ("Jo", ":")
    (tmp_path / "a.tsv").write_text("en:Jo\tB-PER\n:\tO\n")
    assert read_tagged(tmp_path / "a.tsv")[0].words == ("en:Jo", ":")


@pytest.mark.parametrize("line", ["Jo B-PER", "Jo\tPER", "\tO", "Jo\tx\tO"])
def test_damaged_tags(tmp_path, line):
    (tmp_path / "a.tsv").write_text(f"ok\tO\n{line}\n")
    with pytest.raises(ValueError, match=r"a.tsv, line 2 is not a word, a tab and a tag such as O or B-PER"):
        read_tagged(tmp_path / "a.tsv")


def test_inference(tmp_path):
    table = tmp_path / "x.dev.tsv"
    table.write_text("language\tgold_label\tsentence1\tsentence2\nde\tneutral\ta\tb\nsw\tentailment\tc\td\n")
    assert read_inference(table) == {
        "de": [SentencePair("a", "b", "neutral")], "sw": [SentencePair("c", "d", "entailment")],
    }  # fmt: skip
    training = tmp_path / "multinli.train.en.tsv"
    training.write_text("premise\thypo\tlabel\na\tb\tcontradictory\n")
    assert read_inference(training) == {"en": [SentencePair("a", "b", "contradiction")]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nc\td\n", "has no columns sentence1, sentence2, gold_label or premise, hypo, label; it has a, b"),
        ("premise\thypo\tlabel\na\tb\n", "line 2 has 2 columns, but the header has 3"),
        ("premise\thypo\tlabel\na\tb\tyes\n", "line 2 has the label 'yes'; it must be one of contradictory"),
        ("premise\thypo\tlabel\n", "has no pairs"),
    ],
)
def test_damaged_inference(tmp_path, text, message):
    (tmp_path / "x.en.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_inference(tmp_path / "x.en.tsv")


@pytest.mark.skipif(not (DATA / "ud").is_dir(), reason="the measured data are not here")
def test_the_measured_data():
    assert len(read_conllu(DATA / "ud" / "en_ewt-ud-train8k.conllu")) == 8000
    for path in (DATA / "ud").glob("*_pud-*"):
        assert len(read_conllu(path)) == 500
    assert len(read_tagged(DATA / "panx" / "train-en.tsv")) == 19_634
    for path in (DATA / "uner").glob("*.tsv"):
        assert {tag[2:] for one in read_tagged(path) for tag in one.tags} <= {"", "PER", "ORG", "LOC"}
    pairs = read_inference(DATA / "xnli" / "xnli.dev.tsv")
    assert (len(pairs), {len(several) for several in pairs.values()}) == (15, {2490})
    assert {pair.label for pair in pairs["sw"]} == set(LABELS)
    assert len(read_inference(DATA / "xnli" / "multinli.train.en.tsv")["en"]) == 16_117


@pytest.fixture
def hub(tmp_path):
    """A folder in the layout of the Hub, with a dataset of each kind in a configuration of its own."""
    rows = {
        "de": [{"tokens": ["Jo", "da"], "ner_tags": [1, 0]}],
        "en": [
            {"premise": "a", "hypothesis": "b", "label": 2},
            {"premise": "c", "hypothesis": "d", "label": "neutral"},
        ],
        "fr_gsd": [
            {"tokens": ["du", "de", "le", "x"], "upos": [13, 2, "DET", 0], "head": ["None", "3", "3", "0"],
             "deprel": ["_", "case", "det:poss", "root"]},
        ],
    }  # fmt: skip
    for config, several in rows.items():
        (tmp_path / config).mkdir()
        (tmp_path / config / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in several))
    return f"hub:{tmp_path}"


def test_datasets(hub):
    assert tagged_rows(f"{hub}#de", "dev") == [TaggedSentence(("Jo", "da"), ("B-PER", "O"))]
    pairs = [SentencePair("a", "b", "contradiction"), SentencePair("c", "d", "neutral")]
    assert inference_rows(f"{hub}#en", "dev") == pairs
    [parsed] = parsed_rows(f"{hub}#fr_gsd", "dev")
    assert parsed == (("de", "le", "x"), ("ADP", "DET", "NOUN"), (3, 3, 0), ("case", "det", "root"))
    assert [dataset_language(f"{hub}#{config}") for config in ("de", "fr_gsd")] == ["de", "fr"]
    assert is_dataset(hub)
    assert not is_dataset(Path("data/x"))


@pytest.mark.parametrize(
    ("read", "end", "part", "message"),
    [
        (tagged_rows, "", "dev", "names no configuration; write hub:"),
        (tagged_rows, "#sw", "dev", "has no configuration 'sw'; it has de, en, fr_gsd"),
        (tagged_rows, "#de", "train", "has no split train; it has validation"),
        (tagged_rows, "#de", "test", "has no split test; it has validation"),
        (tagged_rows, "#en", "dev", "has no column tokens; it has premise, hypothesis, label"),
        (inference_rows, "#de", "dev", "has no column premise"),
    ],
)
def test_datasets_that_do_not_fit(hub, read, end, part, message):
    with pytest.raises(ValueError, match=message):
        read(hub + end, part)
    with pytest.raises(ValueError, match="is not named after a language"):
        dataset_language(f"{hub}#0_gsd")


def test_labels_that_are_unknown(tmp_path):
    (tmp_path / "de").mkdir()
    (tmp_path / "de" / "test.jsonl").write_text(json.dumps({"tokens": ["a"], "ner_tags": [7]}))
    with pytest.raises(ValueError, match="has the label 7; it must be one of O, B-PER"):
        tagged_rows(f"hub:{tmp_path}#de", "test")


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (tagged_rows, {"tokens": ["a", "b"], "ner_tags": [0]}, "row 0 has 2 tokens, 1 tags; each word needs one of"),
        (tagged_rows, {"tokens": [], "ner_tags": []}, "row 0 has 0 tokens"),
        (parsed_rows, {"tokens": ["a", "b"], "upos": [0, 0], "head": ["0", "3"], "deprel": ["x", "x"]},
         "in row 0, word 2 has the HEAD 3, but a head is 0 or another word, from 1 to 2"),
        (parsed_rows, {"tokens": ["a"], "upos": [0], "head": ["0", "0"], "deprel": ["x"]}, "1 tokens, 2 head, 1 upos"),
    ],
)  # fmt: skip
def test_dataset_rows_are_checked_as_files_are(tmp_path, read, row, message):
    (tmp_path / "de").mkdir()
    (tmp_path / "de" / "test.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=message):
        read(f"hub:{tmp_path}#de", "test")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("de_pud-ud-test500.conllu", "de"), ("dev-de.tsv", "de"), ("en-dev.tsv", "en"), ("zh-dev.tsv", "zh"),
        ("de.tsv", "de"), ("dev-zh-Hant.tsv", "zh-Hant"), ("multinli.train.en.tsv", "en"), ("hsb_ufal-ud-dev.x", "hsb"),
        ("x-all.tsv", None), ("uner-pos.tsv", None), ("wsj-dev.txt", None),
    ],
)  # fmt: skip
def test_the_language_that_a_file_is_named_after(name, language):
    assert language_of_file(f"en/{name}") == language
    with pytest.raises(ValueError, match="is named after the languages en and de; rename it"):
        language_of_file("en-de.tsv")


@pytest.fixture
def prepared(tmp_path):
    """Prepared TensorFlow datasets with the features of the published ones."""
    tfds = need("tensorflow_datasets")
    sequence, text = tfds.features.Sequence, tfds.features.Text
    upos = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN")

    def build(name, version, features, several):
        class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

            def _split_generators(self, dl_manager):
                return {"validation": iter(enumerate(several))}

            def _generate_examples(self):
                raise NotImplementedError

        Builder.name = name
        builder = Builder(data_dir=tmp_path / "written" / version, file_format="array_record")
        builder.download_and_prepare()
        folder = tmp_path / name / version
        folder.parent.mkdir(exist_ok=True)
        shutil.copytree(builder.data_path, folder / "1.0.0")

    build("wikiann", "de", {
        "tokens": sequence(text()),
        "tags": sequence(tfds.features.ClassLabel(names=["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"])),
    }, [{"tokens": ["Jo", "da"], "tags": ["B-PER", "O"]}])  # fmt: skip
    for treebank in ("de_gsd", "de_pud"):
        row = {"tokens": ["le", treebank], "upos": ["DET", "NOUN"], "head": ["2", "0"], "deprel": ["det", "root"]}
        build("universal_dependencies", treebank, {
            "tokens": sequence(text()), "upos": sequence(tfds.features.ClassLabel(names=upos)),
            "head": sequence(text()), "deprel": sequence(text()),
        }, [row])  # fmt: skip
    pair = {"premise": {"de": "ja", "en": "yes"}, "hypothesis": {"de": "nein", "en": "no"}, "label": "contradiction"}
    build("xnli", "plain_text", {
        "premise": tfds.features.Translation(languages=["de", "en"]),
        "hypothesis": tfds.features.TranslationVariableLanguages(languages=["de", "en"]),
        "label": tfds.features.ClassLabel(names=["entailment", "neutral", "contradiction"]),
    }, [pair])  # fmt: skip
    return f"tfds:{tmp_path}"


def test_prepared_datasets(prepared):
    assert tagged_rows(f"{prepared}/wikiann#de", "dev") == [TaggedSentence(("Jo", "da"), ("B-PER", "O"))]
    # Their numbers are others than on the Hub, and there are two treebanks of a language.
    for treebank in ("de_gsd", "de_pud"):
        [parsed] = parsed_rows(f"{prepared}/universal_dependencies#{treebank}", "dev")
        assert parsed == (("le", treebank), ("DET", "NOUN"), (2, 0), ("det", "root"))
    assert inference_rows(f"{prepared}/xnli/plain_text#de", "dev") == [SentencePair("ja", "nein", "contradiction")]
    with pytest.raises(ValueError, match="xnli/plain_text#fr has no language 'fr'; it has de, en"):
        inference_rows(f"{prepared}/xnli/plain_text#fr", "dev")
    with pytest.raises(ValueError, match=r"wikiann holds several datasets or versions; name one of de/1\.0\.0"):
        tagged_rows(f"{prepared}/wikiann#fr", "dev")
    with pytest.raises(FileNotFoundError, match="there is no prepared dataset at .*/wikiann/de/fr"):
        tagged_rows(f"{prepared}/wikiann/de#fr", "dev")
    with pytest.raises(ValueError, match="has no split train; it has validation"):
        tagged_rows(f"{prepared}/wikiann#de", "train")
