"""What commands print to be found and used: lists, help, the nearest of a wrong name, completion in a shell."""

import importlib
import re
import subprocess
import sys

import pytest

from eval.__main__ import TASKS
from eval.__main__ import main as eval_main
from lsar_jax.__main__ import COMMANDS
from lsar_jax.__main__ import main as lsar_main
from lsar_jax.transforms.methods import METHODS

TRAIN = ("ablations", "align.__main__", "disentangle.__main__", "finetune.__main__", "word_pairs.__main__")


def printed(capsys, main, *words):
    """The status of a command, and what it printed."""
    try:
        status = main(list(words))
    except SystemExit as ended:
        status = ended.code or 0
    said = capsys.readouterr()
    return status, re.sub(r"\x1b\[[0-9;]*m", "", said.out + said.err)


def options(text):
    return set(re.findall(r"^\W{0,2}(--[a-z][a-z0-9.-]*)(?=[ ,]|$)", text, flags=re.M))


def commands():
    yield from ((eval_main, task) for task in TASKS)
    yield from ((lsar_main, *words) for words in (*([name] for name in COMMANDS), *(["fit", name] for name in METHODS)))
    yield from ((importlib.import_module(f"train.{name}").main,) for name in TRAIN)


def test_help_shows_what_matters_and_help_all_the_rest(capsys):
    pytest.importorskip("optax")
    for main, *words in commands():
        (status, short), (status_all, full) = (printed(capsys, main, *words, flag) for flag in ("--help", "--help-all"))
        assert (status, status_all) == (0, 0), words
        assert options(short) <= options(full)
        assert len(options(short)) <= 10, words
        assert bool(options(full) - options(short)) == ("More options: " in short), words
    _, full = printed(capsys, eval_main, "tatoeba", "--help-all")
    _, short = printed(capsys, eval_main, "tatoeba", "--dim", "3", "-h")
    assert {"--pooling", "--dim"} <= options(full) - options(short)
    assert short.endswith("More options: python -m eval tatoeba --dim 3 --help-all\n")


def test_after_two_dashes_help_is_a_value(tmp_path, capsys):
    status, said = printed(capsys, lsar_main, "encode", "--", "--help", str(tmp_path / "out"))
    assert status == 1
    assert "--help" in said.splitlines()[0]
    assert said.startswith("error: ")


def test_the_list_needs_no_jax():
    script = "import sys; from lsar_jax.__main__ import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: lsar-jax COMMAND")
    assert not {"jax", "numpy", "tyro"} & set(done.stderr.split())


@pytest.mark.parametrize("main", [eval_main, lsar_main])
def test_the_list_has_a_line_for_each(main, capsys):
    status, text = printed(capsys, main, "--help")
    named = TASKS if main is eval_main else COMMANDS
    assert status == 0
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == list(named)
    assert max(map(len, text.splitlines())) <= 110
    assert printed(capsys, main)[0] == 2


@pytest.mark.parametrize(
    ("main", "words", "expected"),
    [
        (eval_main, ["tatoba"], "error: unknown task 'tatoba'; did you mean tatoeba?\n"),
        (lsar_main, ["encod"], "error: unknown command 'encod'; did you mean encode?\n"),
        (lsar_main, ["x"], "error: unknown command 'x'; choose one of encode, fit, apply"),
        (lsar_main, ["--tyro-print-completion", "ksh"], "error: --tyro-print-completion ksh: write --tyro-print-comp"),
    ],
)
def test_wrong_names(main, words, expected, capsys):
    status, said = printed(capsys, main, *words)
    assert status
    assert said.startswith(expected)


@pytest.mark.parametrize(
    ("main", "words", "near"),
    [
        (eval_main, ["tatoeba", "--poling", "cls"], "--pooling"),
        (lsar_main, ["encode", "a", "b", "--max-lenght", "8"], "--max-length"),
        ("align", ["--layers", "8"], "--layer"),
    ],
)
def test_wrong_options(main, words, near, capsys):
    if main == "align":
        pytest.importorskip("optax")
        main = importlib.import_module("train.align.__main__").main
    status, said = printed(capsys, main, *words)
    assert status == 2
    assert re.search(rf"Perhaps you meant:\s+\W*{near} ", said)


def test_scripts_of_shells(tmp_path, capsys):
    path = tmp_path / "completion"
    assert printed(capsys, lsar_main, "--tyro-write-completion", "bash", str(path))[0] == 0
    assert printed(capsys, lsar_main, "--tyro-print-completion", "bash")[1].strip() == path.read_text().strip()
    assert "--threshold" in path.read_text()
    assert printed(capsys, lsar_main, "--tyro-print-completion", "zsh")[1].startswith("#compdef lsar-jax\n")
