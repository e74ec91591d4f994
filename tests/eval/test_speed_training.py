"""The benchmark of training steps: both sides take the same steps."""

import re

from eval.__main__ import main
from tests.optional import need

need("torch")
need("optax")


def test_both_come_to_the_same_loss(capsys):
    options = ["--dim", "16", "--batch", "32", "--pairs", "400", "--steps", "12", "--repeats", "1", "--seeds", "2"]
    assert main(["headsbench", *options]) == 0
    [(ours, theirs)] = re.findall(
        r"loss after 12 steps: ([\d.]+), PyTorch ([\d.]+)", printed := capsys.readouterr().out
    )
    assert abs(float(ours) - float(theirs)) < 1e-4
    assert float(ours) > 1
    assert "lsar_jax, 2 seeds" in printed
