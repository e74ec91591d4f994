"""``lsar-jax plan``: the operations that the compilers count, and the sizes of what the commands write."""

import json
import re
from pathlib import Path

import pytest

from lsar_jax.__main__ import main
from lsar_jax.cli.plan import _SHAPES
from tests.embeddings.made_folder import made_folder

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("width", [32, 128, 512])
def test_operations_are_those_of_the_programs(size, width):
    rows = map(json.loads, (ROOT / "eval/aot/published.jsonl").read_text().splitlines())
    wanted = f"encode/{size}/bfloat16/{width}", "h200"
    [tflop] = [row["tflop"] for row in rows if (row["program"], row["target"]) == wanted]
    assert 32_768 * _SHAPES[size].operations(float(width)) / 1e12 == pytest.approx(tflop, rel=0.002)


def plan(capsys, *arguments):
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def test_a_plan_of_encoding(capsys, tmp_path, rng):
    told = plan(capsys, "--sentences", "1e9", "--tokens", "32", "--device", "v5e", "--count", "8", "--rate", "10000")
    hours = 1e9 * 32 * _SHAPES["base"].operations(32.0) / (8 * 197e12) / 3600
    assert f"time at the peak: {60 * hours:.1f} minutes; at 40% of it: {hours / 0.4:.1f} hours" in told
    assert "time at 10,000 sentences/s on each device: 3.5 hours" in told
    assert "vectors on disk: 3.07 TB in float32, in 15,259 shards of 201.33 MB" in told
    # What a folder takes, but for the headers of its files.
    x = rng.standard_normal((300, 384)).astype("float32")
    folder = made_folder(tmp_path / "x", x, [str(row) for row in range(300)]).folder
    small = plan(capsys, "--sentences", "300", "--encoder", "small")
    size = float(re.search(r"vectors on disk: ([\d.]+) kB", small)[1]) * 1e3
    assert (folder / "vectors-00000.npy").stat().st_size == size + 128


def test_a_plan_of_mining(capsys):
    told = plan(capsys, "--mine", "1e7", "1e7", "--encoder", "small", "--dtype", "float32", "--reached", "1")
    hours = 2 * 1e14 * 384 / 67e12 / 3600
    assert f"time at the peak: {60 * hours:.1f} minutes" in told
    assert "neighbours in memory, k = 4: 960.00 MB" in told
    assert "approximate" not in told
    assert "search an approximate index first" in plan(capsys, "--mine", "1e7", "1e8")


def test_what_is_refused(capsys):
    for arguments, message in (
        ([], "give --sentences to plan encoding, or --mine to plan mining"),
        (["--sentences", "1e9", "--mine", "1", "1"], "give --sentences to plan encoding, or --mine"),
        (["--sentences", "-1"], "sentences is -1"),
        (["--sentences", "9", "--reached", "2"], "reached is 2.0; it is a share"),
        (["--sentences", "9", "--layer", "13"], "layer is 13; it must be a whole number from 1 to 12"),
        (["--sentences", "9", "--count", "0"], "count is 0"),
    ):
        assert main(["plan", *arguments]) == 1
        assert message in capsys.readouterr().err
