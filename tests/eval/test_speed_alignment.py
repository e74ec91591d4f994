"""The benchmark of alignment: both sides take the same steps on the same text."""

import re

import numpy as np
import pytest

from eval.__main__ import main
from tests.conftest import TINY
from tests.optional import need
from train.word_pairs.aligned_files import AlignedPair, write_aligned

need("torch")
need("optax")


@pytest.mark.slow
def test_both_come_to_the_same_loss(tmp_path, capsys):
    rng = np.random.default_rng(0)
    pairs = []
    for length in rng.integers(3, 9, 40):
        words = tuple(rng.choice(list("abcdefgh"), length).tolist())
        other = tuple(f"{word}x" for word in words[::-1])
        pairs.append(AlignedPair(words, other, frozenset((at, int(length) - 1 - at) for at in range(length))))
    write_aligned(tmp_path, "de", "validation", pairs)
    short = ["--batch", "8", "--steps", "3", "--repeats", "1", "--chunk-tokens", "64", "--max-length", "24"]
    assert main(["alignbench", "--words", str(tmp_path), "--encoder", str(TINY), "--layer", "1", *short]) == 0
    printed = capsys.readouterr().out
    [(ours, theirs)] = re.findall(r"loss after 3 steps without dropout: ([\d.]+), PyTorch ([\d.]+)", printed)
    assert abs(float(ours) - float(theirs)) < 2e-4
    assert float(ours) > 1
    assert "tokens/s" in printed
