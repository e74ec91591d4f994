"""Wu and Dredze's study: which trainings it runs, what it counts, and a run that is stopped."""

import json
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main
from eval.report.seed_scores import transfer_rows
from eval.study import LANGUAGES, TREEBANKS, Study
from lsar_jax.measures.results import read_results
from tests.conftest import TINY
from tests.eval.test_transfer import CONFIG
from tests.optional import need
from tests.train.runs import log_of, stop_at, write_labelled, write_words

need("optax")


def command(folder, out, *more, tasks=("pos", "ner"), encoder=TINY):
    """A small study in English and German."""
    if not (folder / "words").exists():
        write_words(folder)
    texts = []
    for name, task in (("ud", "pos"), ("ner", "ner")):
        (folder / name).mkdir(exist_ok=True)
        for part, tests in (("train", ["train-en"]), ("dev", ["dev-en"]), ("test", ["test-en", "test-de"])):
            sizes = {"train-en": 48, "dev-en": 12}
            files = [write_labelled(folder / name, task, test, sizes.get(test, 10), len(test)) for test in tests]
            texts += [f"--{name}.{part}", *files]
    texts += ["--encoder", str(encoder), "--words", str(folder / "words"), "--out", str(out)]
    texts += ["--languages", "en", "de", "--tasks", *tasks, "--seeds", "12", "8"]
    return ["study", *texts, "--max-length", "20", "--align-length", "20", *more]


SMALL = (
    *("--align.steps", "6", "--align.batch", "8", "--align.validate-every", "3", "--align.validation-pairs", "16"),
    *("--finetune.epochs", "1", "--finetune.batch", "8", "--finetune.validations", "2"),
    *("--finetune.learning-rate", "1e-3", "--objectives", "weak"),
)  # fmt: skip


def score(name, task, seed, language):
    """What a made-up training scores."""
    return 60.0 + len(name) + (task == "ner") + seed % 5 * (language != "en")


@pytest.fixture
def trainings(monkeypatch):
    """The trainings that a study asks for, which are not run; scores are made up."""
    asked = []

    def align(self):
        asked.append(self)
        (self.out / f"tiny-{self.objective}").mkdir(parents=True, exist_ok=True)

    def finetune(self):
        asked.append(self)
        self.out.mkdir(parents=True)
        metric = {"pos": "accuracy", "ner": "F1"}[self.task]
        seeds = {
            str(seed): {
                "scores": {
                    f"test-{code}": {
                        "language": code, "n": 10, "mapped": False, metric: score(self.out.name, self.task, seed, code)
                    }
                    for code in self.languages
                }
            }
            for seed in (*self.seeds, 99)  # that of an earlier study, too
        }  # fmt: skip
        aligned = self.out.name not in ("original", "features")
        alignment = {"objective": self.out.name, "encoder": "tiny", "text": "words"} if aligned else {}
        spec = {"id": "tiny", "revision": f"sha256:{self.out.name}", "layer": 2, "pooling": "mean", "dtype": "float32"}
        record = {"task": self.task, "metric": metric, "encoder": spec, "maps": "maps" if self.maps else ""}
        (self.out / "transfer.json").write_text(json.dumps(record | {"alignment": alignment, "seeds": seeds}))
        config = CONFIG | {"task": self.task, "features": self.training.features, "epochs": self.training.epochs}
        (self.out / "config.json").write_text(json.dumps(config))

    monkeypatch.setattr("train.align.__main__.Align.run", align)
    monkeypatch.setattr("train.finetune.__main__.Finetune.run", finetune)
    return asked


def test_trainings_and_tables(tmp_path, trainings, capsys):
    out = tmp_path / "out"
    epochs = ("--features.epochs", "20", "--finetune.epochs", "5")
    assert main(command(tmp_path, out, *epochs, "--features.batch", "16")) == 0
    aligned, tuned = trainings[:4], trainings[4:]
    printed = capsys.readouterr().out
    assert printed.count("loaded in") == 1  # the checks of all trainings, none of which runs here, share the encoder
    assert [run.objective for run in aligned] == ["linear", "l2", "weak", "strong"]
    assert {run.text.languages for run in aligned} == {("de",)}
    rows = ["original", "features", "linear", "l2", "weak", "strong"]
    assert [run.out.relative_to(out) for run in tuned] == [Path(task, row) for task in ("pos", "ner") for row in rows]
    for run in tuned:
        assert run.training.features == (run.out.name in ("features", "linear"))
        assert (run.maps == out / "align" / "linear") == (run.out.name == "linear")
        tensors = run.encoder.encoder.rpartition("-")[2]
        assert tensors == run.out.name or run.encoder.encoder == str(TINY)
        assert {Path(test).stem for test in run.test} == {"test-en", "test-de"}
    results = read_results(out / "results.jsonl")
    assert {result.seed for result in results} == {12, 8, None}
    for task, metric in (("pos", "accuracy"), ("ner", "F1")):
        of_task = [result for result in results if result.task == f"transfer-{task}"]
        table = transfer_rows(of_task)
        assert list(table) == ["tiny", *(f"tiny + {row}" for row in rows[1:])]
        # Seeds 12 and 8 differ by 1 in German, so that the mean of the standard deviations is half of that of one.
        [std] = [r.value for r in of_task if r.transform == "l2" and r.metric == f"{metric} all languages, std"]
        assert std == pytest.approx(np.sqrt(2) / 2 / 2)
        mean = table["tiny + l2"]["all languages"]
        assert (mean.std, mean.mark) == (std, "-")
        assert {r.options["fit_on"] for r in of_task if r.transform in ("linear", "weak")} == {"words"}
        assert {f"{metric} de", f"{metric} de, std"} <= {r.metric for r in of_task}
    shown = " ".join(printed.split())
    assert "Mean over all languages, with the mean of their standard deviations" in shown
    assert "tiny + linear minus tiny + features" in shown


def test_examples_are_counted(tmp_path, trainings, capsys, refused):
    assert main(command(tmp_path, tmp_path / "out", "--count", "--most", "40")) == 0
    assert not trainings
    found = {result.metric: result.value for result in read_results(tmp_path / "out" / "results.jsonl")}
    assert found == {"examples en-train": 40, "examples en-dev": 12, "examples en-test": 10, "examples de-test": 10}
    assert "Number of examples" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    assert "|  | pos | ner |" in page
    assert "| examples en-train | 40 | 40 |" in page
    arguments = command(tmp_path, tmp_path / "other", "--languages", "en", "de", "hi")
    assert "the text to test pos on has none in hi; omit it from --languages" in refused(main, arguments)
    arguments = command(tmp_path, tmp_path / "other", "--seeds", "12", "12")
    assert "--seeds is 12 12; give one or more, each once" in refused(main, arguments)
    for codes, message in (
        (("en",), "is en; give others too"),
        (("de", "deu"), "is de de; give one or more, each once"),
    ):
        assert f"--languages {message}" in refused(main, command(tmp_path, tmp_path / "other", "--languages", *codes))
    arguments = command(tmp_path, tmp_path / "other", "--max-length", "999")
    assert "--max-length is 999; with special tokens," in refused(main, arguments)
    arguments = command(tmp_path, tmp_path / "other", "--features.batch", "999")
    assert "--batch is 999; it must be at most 48" in refused(main, arguments)
    assert not trainings


def test_text_of_the_hub_is_read_by_default(tmp_path, trainings, monkeypatch):
    """From a copy with the Hub's layout."""
    rows = {"premise": "a", "hypothesis": "b", "label": 2, "tokens": ["a"], "ner_tags": [1]}
    for name in ("en/train", "en/validation", "en/test", "de/test"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(rows) + "\n")
    asked = set()

    class Repository:
        def __init__(self, *given):
            asked.add(given[:2])

        def info(self):
            return None

        def cached(self):
            return tmp_path

    monkeypatch.setattr("lsar_jax.corpora.hub_datasets.Repository", Repository)
    given = ["--languages", "en", "de", "--tasks", "xnli", "ner", "--count", "--out", str(tmp_path / "out")]
    assert main(["study", *given]) == 0
    assert asked == {("facebook/xnli", "main"), ("unimelb-nlp/wikiann", "main")}


def test_languages_may_have_other_codes(tmp_path, trainings):
    assert main(command(tmp_path, tmp_path / "out", "--languages", "eng", "deu", "--objectives", "weak")) == 0
    assert trainings[0].text.languages == ("de",)
    assert {run.languages for run in trainings[1:]} == {("en", "de")}


def test_the_defaults_are_the_papers():
    study = Study()
    assert [str(path).split("/", 1)[1] for path in (study.ud.train, study.ud.test[0])] == [
        "ud-treebanks-v2.6/UD_English-EWT/en_ewt-ud-train.conllu",
        "ud-treebanks-v2.6/UD_Arabic-PADT/ar_padt-ud-test.conllu",
    ]
    assert len(study.ud.test) == len(study.xnli.test) == len(TREEBANKS) == len(LANGUAGES) == 9
    assert study.seeds == (12, 156, 78, 37, 8)


@pytest.mark.slow
def test_a_study_that_is_stopped_goes_on_to_the_same_results(tmp_path, tiny_block):
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    short = {"tasks": ["pos"], "encoder": tiny_block}
    assert main(command(tmp_path, whole, *SMALL, **short)) == 0
    at = int(np.random.default_rng().integers(1, 4))  # of the four lines that the log gets
    print(f"stopped after {at} lines of the log of pos, weak, seed 8")
    stopped = command(tmp_path, out, *SMALL, "--checkpoint-seconds", "0", **short)
    stop_at(main, stopped, out / "pos" / "weak" / "seed-8" / "log.jsonl", at)
    weak = log_of(out / "align" / "weak")
    assert not (out / "results.jsonl").exists()
    assert main(command(tmp_path, out, *SMALL, **short)) == 0
    assert log_of(out / "align" / "weak") == weak
    first, second = (
        [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()] for folder in (whole, out)
    )
    for line in (*first, *second):
        line["options"].pop("fit_on")
    assert first == second
