"""Cards: their commands, what they lack, and published values beside ours, within the tolerance and outside of it."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.data.tatoeba import XTREME_36
from eval.papers.card import CARDS, PAPERS, CardStep, PaperSetting
from eval.papers.comparison import cells, compare, grouped
from eval.papers.missing import missing
from eval.papers.plan import CardOptions, Planned, plan, plan_step
from eval.papers.published import PUBLISHED
from eval.papers.sources import checksum_of
from lsar_jax.measures.results import write_results
from tests.made_results import made_result

TINY = str(Path(__file__).parents[1] / "golden" / "bert")
MBERT = PaperSetting("mBERT", (8,))
TATOEBA = (r"tatoeba en-xx mean over \d+",)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_tatoeba(folder, codes=XTREME_36):
    folder.mkdir(parents=True)
    for code in codes:
        for side in ("eng", code):
            (folder / f"tatoeba.{code}-eng.{side}").write_text("a cat\nthe dog barks\nno\n")


def ours(value, method="original", half=0.0, **changes):
    """A result on the papers' Tatoeba, with an interval that is twice ``half`` wide."""
    name, _, parameters = method.partition(" ")
    found = dict(part.split("=") for part in parameters.split())
    interval = {"low": value - half, "high": value + half} if half else {}
    parameters = {key: int(number) for key, number in found.items()}
    same = {"transform": name, "parameters": parameters, "value": value, "options": {"fit_on": "text/oscar"}}
    return made_result(**same | interval | changes)


def expected(method, encoder="mBERT", table="Table 1", metric="en-xx mean over 36"):
    return [n for n in PUBLISHED if (n.method, n.encoder, n.table, n.metric) == (method, encoder, table, metric)]


def compared(results, method="original", setting=MBERT):
    """The rows of results beside Xie et al.'s mean of a method."""
    return compare(grouped(results, setting, TATOEBA), expected(method))


def lacks(name, choice):
    """The sentences on what a card lacks."""
    return [lack.text for lack in missing(CARDS[name], plan(CARDS[name], choice), choice, download=False)]


def test_commands_of_all_cards_are_complete(empty):
    choice = CardOptions(encoder=TINY, layers=(2,))
    for name, card in CARDS.items():
        for entry in plan(card, choice):
            assert not re.search(r"\{(layer|trained|encoder)\}", entry.line), entry.line
            if entry.out is not None:
                assert entry.command.out == Path("results/repro") / name / "bert" / entry.out.name


@pytest.mark.parametrize(("encoder", "counts"), [("xlm-r-large", [0, 0, 4, 1]), ("bundled", [2, 8, 40, 2])])
def test_commands_that_the_paper_has_not_for_an_encoder_are_left_out(encoder, counts):
    tasks = [entry.step.task for entry in plan(CARDS["wu-dredze-tables-1-3-4"], CardOptions(encoder=encoder))]
    names = ("train.word_pairs", "train.align", "train.finetune", "transfer")
    assert [tasks.count(name) for name in names] == counts


def test_list(empty, capsys):
    assert main(["repro"]) == 0
    printed = capsys.readouterr().out
    for name in CARDS:
        assert name in printed
    assert "text/oscar" in printed
    assert main(["repro", "xie-table-99"]) == 1
    assert "is not one of xie-table-1" in capsys.readouterr().err


def test_the_card_of_the_how_to_page():
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "own-card.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```toml\n# eval/papers/cards/haemmerl.toml\n(.*?)```", text, flags=re.S)
    [shown] = tomllib.loads(code)["cards"]
    [real] = [card for card in PAPERS[-1].cards if card.name == shown["name"]]
    assert shown["items"] == real.items
    assert shown["steps"][0]["options"] == json.loads(json.dumps(real.steps[0].options))
    assert shown["here"] in real.here


def test_everything_that_is_missing_is_said_at_once(empty, capsys):
    write_tatoeba(empty / "data" / "tatoeba", XTREME_36[:-1])
    (empty / "text" / "oscar").mkdir(parents=True)
    (empty / "text" / "oscar" / "de.txt").write_text("ein Satz\n")
    assert main(["repro", "xie-table-5", "--encoder", "mbert", "--dry-run"]) == 0
    dry = capsys.readouterr().out
    for number, entry in enumerate(plan(CARDS["xie-table-5"], CardOptions(encoder="mbert")), 1):
        assert f"{number}. {entry.line}" in dry
    assert main(["repro", "xie-table-5", "--encoder", "mbert"]) == 1
    caught = capsys.readouterr()
    for text in (dry, caught.err):
        assert "xie-table-5 cannot run with mbert; missing (4):" in text
        for said in (
            "the encoder mbert cannot be loaded", "hf download google-bert/bert-base-multilingual-cased",
            "data/tatoeba has no files for zh; it has af, ar",
            ": put there a copy of `data/tatoeba/v1` of facebookresearch/LASER",
            "the text to fit on: text/oscar has no file for af, file for ar",
            "there is no folder data/lang2vec; make it: put there `distances2.zip`",
        ):  # fmt: skip
            assert said in text
    assert caught.err.count("error:") == 1
    assert "Traceback" not in caught.err
    assert not (empty / "results").exists(), "nothing was run"
    assert main(["repro", "xie-table-2", "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert re.search(r"there is no folder data/mlqa-r; .*, at commit 354d67d1cd06\w+ \(command 2\)", dry)


def test_checksum(empty):
    """It is what the command on the page prints."""
    write_tatoeba(empty / "data", ("de", "fr"))
    command = "LC_ALL=C; cd data; sha256sum tatoeba.* | sha256sum"
    shell = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    assert checksum_of(Path("data"), "tatoeba.*") == shell.split()[0]
    assert checksum_of(Path("data"), "none.*") == checksum_of(Path("nowhere"), "*") == ""


def test_trained_heads_are_found_or_their_training_is_named(empty):
    choice = CardOptions(encoder=TINY, layers=(2,))
    [heads] = [text for text in lacks("ki-figure-3", choice) if "heads" in text]
    four = ("dream-halves", "dream-halves-oracle-code-all", "meat", "meat-oracle-code-all")
    assert heads.startswith(", ".join(f"results/bert/oracle/layer-2/{run}" for run in four))
    [line] = re.findall(r"`(python -m train\.ablations [^`]+)`", heads)
    assert all(part in line for part in ("--bases dream meat", f"--encoder {TINY}", "--layers 2 "))
    for run in four:
        (empty / "results/bert/oracle/layer-2" / run).mkdir(parents=True)
        (empty / "results/bert/oracle/layer-2" / run / "trained.json").write_text("{}")
    # A card that trains its heads needs none.
    assert not [text for name in ("ki-figure-3", "ki-table-3") for text in lacks(name, choice) if "heads" in text]


@pytest.mark.parametrize(
    ("name", "choice", "options"),
    [
        ("xie-table-1", {"encoder": "xlm-r-large"}, ("xlm-r-large", (11,), "text/oscar", 512)),
        # By the id on the Hub, and with other choices.
        ("xie-table-1", {"encoder": "FacebookAI/xlm-roberta-large", "fit_on": "udhr", "max_length": 64},
         ("FacebookAI/xlm-roberta-large", (11,), "udhr", 64)),
        # Evaluated sentences stay what methods are fitted on.
        ("haemmerl-table-4", {"encoder": "mbert", "fit_on": "udhr"}, ("mbert", (8,), "evaluated", 512)),
    ],
)  # fmt: skip
def test_commands_for_an_encoder_of_the_paper(name, choice, options):
    task = plan(CARDS[name], CardOptions(**choice))[0].command
    assert (task.encoder, task.layers, task.fit_on, task.max_length) == options


def test_a_choice_that_a_card_does_not_have():
    with pytest.raises(ValueError, match="--steps is 3; it must be a whole number from 1 to 2"):
        plan(CARDS["haemmerl-table-4"], CardOptions(steps=(3,)))
    with pytest.raises(ValueError, match="--as 'bert' is not one of .*mbert"):
        plan(CARDS["xie-table-1"], CardOptions(named="bert"))


def test_a_word_with_a_layer_is_repeated():
    step = CardStep("leakage", {"runs": ("{trained}/heads/layer-{layer}/meat",), "languages": ("de",)})
    line = plan_step(step, CardOptions(layers=(8, 12)), Path("out")).line
    runs = "results/heads/layer-8/meat results/heads/layer-12/meat"
    assert line == f"python -m eval leakage {runs} --languages de --out out"


def test_within_and_outside_of_the_tolerance():
    # 37.53 is printed to two decimals: half a unit is 0.005.
    [number] = expected("original")
    assert (number.value, number.decimals) == (37.53, 2)
    for value, half, verdict in (
        (37.53, 0.5, "equal"), (37.536, 0.5, "within"), (38.034, 0.5, "within"), (38.036, 0.5, "outside"),
        (37.024, 0.5, "outside"), (37.534, 0.0, "equal"), (37.54, 0.0, "not judged"),
    ):  # fmt: skip
        [row] = compared([ours(value, half=half)])
        assert row.verdict == verdict, value
        assert row.difference == pytest.approx(value - 37.53)
        assert row.tolerance == pytest.approx(half + 0.005)


def test_seeds_widen_the_tolerance():
    options = {"fit_on": "evaluated"}
    results = [ours(45.0 + seed, "cbie clusters=3", seed=seed, options=options) for seed in range(3)]
    [row] = compare(grouped(results, MBERT, TATOEBA), expected("cbie", table="Table 5"))
    # t(0.975, 2) = 4.3027, s = 1.
    assert row.ours == 46.0
    assert row.tolerance == pytest.approx(0.005 + 4.3027 * (4 / 3) ** 0.5, rel=1e-4)
    assert row.verdict == "within"


@pytest.mark.parametrize("changes", [{"layer": 12}, {"n": 31_691}, {"options": {"fit_on": "evaluated"}}])
def test_no_value_stands_beside_another_quantity(changes):
    rows = compared([ours(44.64, "lsar rank=36", half=0.5, **changes)], "lsar rank=36")
    assert (rows[0].verdict, rows[0].ours, rows[0].published) == ("not compared", None, 44.64)
    assert [row.published for row in rows[1:]] == [None]


def test_a_number_of_another_layer_or_with_a_note():
    """Table 13 names its layers; Table 3 contradicts it by 0.01."""
    numbers = [n for n in PUBLISHED if (n.encoder, n.method, n.metric) == ("mBERT", "original", "accuracy mean")]
    numbers = [n for n in numbers if n.table in ("Table 3", "Table 13")]
    of_task = {"task": "amazon", "metric": "accuracy mean", "languages": ("en", "de", "fr", "ja"), "max_length": 512}
    made = [ours(74.73, layer=layer, **of_task) for layer in (8, 12)]
    rows = compare(grouped(made, PaperSetting("mBERT", (8, 12)), ()), numbers)
    assert {(row.source, row.layer) for row in rows if "Table 13" in row.source} == {
        ("Xie et al. 2022, Table 13", 8), ("Xie et al. 2022, Table 13", 12),
    }  # fmt: skip
    [third] = [row for row in rows if row.source.endswith("Table 3")]
    assert (third.layer, third.verdict) == (8, "equal")
    assert "differs by up to 0.01 from Tables 13 to 15" in cells(third)[-1]


def test_towers_are_not_judged():
    wanted = ("Figure 3 / sec. 4.5.1", "mBERT X-X", "original")
    number = next(n for n in PUBLISHED if (n.table, n.encoder, n.method) == wanted)
    made = ours(10.0, task="lareqa", metric=number.metric, languages=tuple("abcdefghijk"), n=13_090, layer=12, half=1.0)
    [row] = compare(grouped([made], PaperSetting("mBERT X-X", (12,)), ()), [number])
    assert (row.ours, row.verdict) == (10.0, "not judged")
    assert "towers that were fine-tuned on SQuAD" in row.why


def test_report_of_a_run(empty, capsys, monkeypatch):
    """Results of an encoder of the paper, one value within and one outside; the commands are not run."""
    write_tatoeba(empty / "data" / "tatoeba")
    (empty / "text" / "oscar").mkdir(parents=True)
    for code in (*XTREME_36, "en"):
        (empty / "text" / "oscar" / f"{code}.txt").write_text("a cat\n")
    folder = empty / "results" / "repro" / "xie-table-1" / "bert"
    made = [ours(37.9, half=0.5), ours(46.0, "lsar rank=36", half=0.5), ours(39.0, "center", half=0.5, layer=12)]

    def run(planned):
        write_results(made, planned.out / "results.jsonl")

    monkeypatch.setattr("eval.papers.missing._encoder", lambda *_: iter(()))
    with monkeypatch.context() as patch:
        patch.setattr(Planned, "run", run)
        assert main(["repro", "xie-table-1", "--encoder", TINY, "--as", "mbert"]) == 0
    printed = capsys.readouterr().out
    assert "12 published values: 1 within, 1 outside, 10 not compared" in printed
    assert "not compared, 3: no result has its data, languages, fitting text, training and layer" in printed
    assert "the paper quotes it" in printed
    lines = [json.loads(line) for line in (folder / "comparison.jsonl").read_text().splitlines()]
    verdicts = [(line["method"], line["published"], line["ours"], line["verdict"]) for line in lines]
    for row in (
        ("original", 37.53, 37.9, "within"),
        ("center", 39.57, None, "not compared"),
        ("center", None, 39.0, ""),
    ):
        assert row in verdicts
    assert {(line["card"], line["encoder"], line["as"]) for line in lines} == {("xie-table-1", "bert", "mBERT")}
    page = (folder / "comparison.md").read_text()
    checksum = checksum_of(Path("data/tatoeba"), "tatoeba.*")
    assert f"data/tatoeba: sha256 {checksum}, not the copy that the page's numbers are from" in printed
    assert f"- text/oscar: sha256 {checksum_of(Path('text/oscar'), '*.txt')}" in page
    assert "| tatoeba, en-xx mean over 36: lsar rank=36 | 8 | 44.64 | 46.000 | +1.360 | 0.505 | outside |" in page
    # A command that fails ends the run.
    assert main(["repro", "xie-table-1", "--encoder", TINY, "--as", "mbert", "--layers", "12"]) == 1
    assert "command 1 of xie-table-1 failed, python -m eval tatoeba" in capsys.readouterr().err


def test_from_end_to_end(empty, capsys):
    """An encoder that the paper does not have: our values, and the paper's as information only."""
    write_tatoeba(empty / "data" / "tatoeba")
    command = ["repro", "haemmerl-table-4", "--encoder", TINY, "--steps", "1", "--layers", "1", "--max-length", "16"]
    assert main(command) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "bert is not an encoder of Table 4 of Hämmerl et al. 2023 (XLM-R base, S-BERT)" in printed
    assert "encoded 3 sentences" in printed, "the output of the command is shown"
    folder = empty / "results" / "repro" / "haemmerl-table-4" / "bert"
    lines = [json.loads(line) for line in (folder / "comparison.jsonl").read_text().splitlines()]
    assert [(line["method"], line["published"]) for line in lines] == [("original", None), ("largest=10", None)]
    # What is there is not run again.
    assert main(command) == 0
    assert "encoded" not in capsys.readouterr().out
