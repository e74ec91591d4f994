"""The number of examples in each part of a task's text."""

from eval.__main__ import main
from lsar_jax.measures.results import read_results
from tests.optional import need
from tests.train.runs import write_labelled

need("optax")


def test_examples_are_counted(tmp_path, capsys):
    sizes = {"train-en": 48, "dev-en": 12, "test-en": 10, "test-de": 9}
    train, dev, *tests = (write_labelled(tmp_path, "pos", name, count, 0) for name, count in sizes.items())
    command = ["examples", "--task", "pos", "--train", train, "--dev", dev, "--test", *tests]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    found = {result.metric: result.value for result in read_results(tmp_path / "out" / "results.jsonl")}
    assert found == {"examples en-train": 48, "examples en-dev": 12, "examples en-test": 10, "examples de-test": 9}
    assert "Number of examples" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "out")]) == 1  # it is no task
