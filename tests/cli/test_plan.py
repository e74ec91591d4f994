"""``lsar-jax plan``: the operations that the compilers count, and the sizes of what the commands write."""

import json
import re
from pathlib import Path

import pytest

from lsar_jax.__main__ import main
from lsar_jax.cli.plan import SIZES
from tests.embeddings.made_folder import made_folder

ROOT = Path(__file__).parents[2]


def test_operations_are_those_of_the_programs():
    rows = map(json.loads, (ROOT / "eval/aot/published.jsonl").read_text().splitlines())
    counted = {row["program"]: row["tflop"] for row in rows if row["target"] == "h200"}
    for size in ("base", "large"):
        for width in (32, 128, 512):
            tflop = 32_768 * SIZES[size].operations(float(width)) / 1e12
            assert tflop == pytest.approx(counted[f"encode/{size}/bfloat16/{width}"], rel=0.002)


def test_plans(capsys, tmp_path, rng):
    def plan(*arguments):
        assert main(["plan", *arguments]) == 0
        return capsys.readouterr().out

    printed = plan("--sentences", "1e9", "--tokens", "32", "--device", "v5e", "--count", "8", "--rate", "10000")
    hours = 1e9 * 32 * SIZES["base"].operations(32.0) / (8 * 197e12) / 3600
    assert f"time at the peak: {60 * hours:.1f} minutes; at 40% of it: {hours / 0.4:.1f} hours" in printed
    assert "time at 10,000 sentences/s on each device: 3.5 hours" in printed
    assert "vectors on disk: 3.07 TB in float32, in 15,259 shards of 201.33 MB" in printed
    # The size of a folder, but for the headers of its files.
    x = rng.standard_normal((300, 384)).astype("float32")
    folder = made_folder(tmp_path / "x", x, [str(row) for row in range(300)]).folder
    printed = plan("--sentences", "300", "--encoder", "small")
    size = float(re.search(r"vectors on disk: ([\d.]+) kB", printed)[1]) * 1e3
    assert (folder / "vectors-00000.npy").stat().st_size == size + 128
    printed = plan("--mine", "1e7", "1e7", "--encoder", "small", "--reached", "1")
    assert f"time at the peak: {60 * 2e14 * 384 / 67e12 / 3600:.1f} minutes" in printed
    assert "neighbours in memory, k = 4: 960.00 MB" in printed
    assert "approximate" not in printed
    assert "search an approximate index first" in plan("--mine", "1e7", "1e8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --sentences to plan encoding, or --mine to plan mining"),
        (["--sentences", "1e9", "--mine", "1", "1"], "give --sentences to plan encoding, or --mine"),
        (["--mine", "1", "1", "--rate", "9"], "--rate is that of encoding"),
        (["--sentences", "-1"], "sentences is -1"),
        (["--sentences", "9", "--reached", "2"], "reached is 2.0; it is a share"),
        (["--sentences", "9", "--count", "0"], "count is 0"),
    ],
)
def test_refusals(arguments, message, capsys):
    assert main(["plan", *arguments]) == 1
    assert message in capsys.readouterr().err
