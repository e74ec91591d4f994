"""The benchmarks: both sides of each compute the same, and one command writes and prints their rows."""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from eval.__main__ import main
from eval.bench.encoder_configs import CONFIGS
from eval.bench.peers import fits, search
from eval.bench.peers.growth import growth
from eval.bench.peers.heads import heads
from eval.bench.peers.timing import Timing, fastest, operations_per_token
from lsar_jax.mesh import cpu_features
from lsar_jax.transforms.methods import METHODS
from tests import parity
from tests.optional import need

need("torch")
need("optax")

SIZES = {"languages": 4, "rows": 200, "dim": 24, "repeats": 1}


@pytest.fixture
def rates(monkeypatch):
    """Measures no rates."""
    for name in ("encode", "fits", "heads", "search"):
        monkeypatch.setattr(f"eval.bench.peers.{name}.product_rate", lambda *_, **__: 1e9)
    monkeypatch.setattr("eval.bench.peers.fits.copy_rate", lambda: 1e9)


@pytest.fixture
def small(monkeypatch):
    """Makes encoders small."""
    small = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8}
    small |= {"intermediate_size": 32, "max_position_embeddings": 130, "num_key_value_heads": 1}
    for name, config in CONFIGS.items():
        monkeypatch.setitem(CONFIGS, name, {**config, **{key: small[key] for key in config.keys() & small}})
    monkeypatch.setattr("eval.bench.peers.random_encoder._WORDS", 60)


def lines(folder):
    return [json.loads(line) for line in (folder / "speed.jsonl").read_text().splitlines()]


def difference(row):
    return float(row.answer.removeprefix("differs by "))


def test_fastest_calls_in_turns():
    calls = []
    seconds, results = fastest({name: lambda name=name: calls.append(name) or len(calls) for name in "ab"}, 2)
    assert (calls, results) == (list("ababab"), {"a": 1, "b": 2})
    assert all(0 < value < 1 for value in seconds.values())


def test_rows_are_written_and_those_of_other_benchmarks_kept(tmp_path, monkeypatch, printed):
    def benchmark(queries):
        yield Timing("case", "lsar_jax", 2.0, f"{queries} queries", 50.0)
        yield Timing("case", "peer", 3.0, f"{queries} queries", answer="the same")

    monkeypatch.setattr("eval.bench.peers.search.search", benchmark)
    monkeypatch.setattr("eval.bench.peers.fits.fits", lambda: [Timing("fit", "lsar_jax", 1.0, "work")])
    monkeypatch.setattr("eval.bench.peers.heads.heads", lambda: import_module("no_such_module"))
    options = ["--out", str(tmp_path)]
    shown = printed(main, ["speed", "--benchmarks", "search", "heads", "fits", "--queries", "7", *options])
    assert "left out heads: No module named 'no_such_module'" in shown
    [cells] = [line.split("│")[1:-1] for line in shown.splitlines() if "peer" in line]
    assert [cell.strip() for cell in cells] == ["search: case", "peer", "3", "7 queries", "1.50", "", "the same"]
    before = lines(tmp_path)
    assert [(line["benchmark"], line["seconds"]) for line in before] == [("search", 2), ("search", 3), ("fits", 1)]
    assert all(line["date"] and "jax " in line["versions"] for line in before)
    assert main(["speed", "--benchmarks", "search", "--queries", "8", *options]) == 0
    assert [line["work"] for line in lines(tmp_path)] == ["work", "8 queries", "8 queries"]


def test_fits_give_the_answers_of_their_peers(rates):
    rows = list(fits.fits(**SIZES))
    assert list(dict.fromkeys(row.case for row in rows)) == ["center", "lsar", "lir", "whitening", "language-whitening"]
    assert [row.case for row in rows if row.version == "scikit-learn"] == ["whitening", "language-whitening"]
    assert all(difference(row) < 1e-4 for row in rows if row.answer)


def test_a_wrong_fit_shows(rates, monkeypatch):
    monkeypatch.setitem(METHODS, "whitening", replace(METHODS["whitening"], fixed={"eps": 2e-3}))
    monkeypatch.setattr(fits, "_PEERS", {"whitening": fits._PEERS["whitening"]})
    assert min(difference(row) for row in fits.fits(**SIZES) if row.answer) > 1e-4


def test_search_finds_the_neighbours_of_faiss(rates):
    need("faiss")
    rows = list(search.search(queries=50, candidates=300, dim=16, k=(1, 3), repeats=1))
    versions = ["lsar_jax", "faiss", "lsar_jax, bfloat16", "lsar_jax, CSLS"]
    assert [row.version for row in rows] == [*versions, *versions, "lsar_jax", "lsar_jax"]
    assert all(row.answer == "100.0% of the neighbours" for row in rows[:-2] if "CSLS" not in row.version)


def test_the_peers_of_search_find_the_same(rng):
    """PyTorch, the peer on a GPU, runs on a CPU here, with more queries than it takes at a time."""
    need("faiss")
    queries, candidates = (rng.standard_normal((rows, 8)).astype(np.float32) for rows in (5000, 90))
    (_, faiss), (_, torch) = (make(queries, candidates) for make in (search._faiss, search._torch))
    (scores, ids), (other_scores, other_ids) = faiss(3), torch(3)
    np.testing.assert_array_equal(ids, other_ids)
    np.testing.assert_allclose(scores, other_scores, rtol=1e-5)


@pytest.mark.slow
def test_mining_in_a_process_of_its_own():
    [row] = growth([(3000, 2000)], 16)
    assert row.case == "mining 3,000 x 2,000"
    assert 0 < row.share < 100


@pytest.mark.slow
def test_heads_come_to_the_loss_of_pytorch(rates):
    rows = list(heads(dim=16, batch=32, pairs=400, steps=12, repeats=1, seeds=1))
    assert [row.version for row in rows] == ["lsar_jax", "lsar_jax, 1 seeds", "PyTorch"]
    losses = [float(row.answer.removeprefix("loss ")) for row in rows]
    assert min(losses) > 1
    assert max(losses) - min(losses) < 1e-4


def test_operations_are_those_of_the_weights():
    """Kernels of 3 blocks of 32."""
    for name, kernels in (("bert", 4 * 32**2 + 2 * 32 * 64), ("qwen3", 12288)):
        assert operations_per_token(parity.load(name)) == 3 * 2 * kernels


@pytest.mark.slow
def test_a_random_encoder_beside_sentence_transformers(rates, small, tmp_path, printed):
    need("sentence_transformers")
    options = ["--benchmarks", "encode", "--encoder", "random-base", "--sentences", "12", "--out", str(tmp_path)]
    shown = printed(main, ["speed", *options])
    opening, rows = lines(tmp_path)[:4], lines(tmp_path)[4:]
    assert [row["case"] for row in opening] == ["opening"] * 4
    assert opening[0]["seconds"] < opening[2]["seconds"]
    assert opening[3]["seconds"] < opening[0]["seconds"] / 2  # --help needs no JAX
    # PyTorch computes in bfloat16 only where the processor can.
    versions = ["lsar_jax", "lsar_jax", "torch", "torch"][: 4 if "bf16" in cpu_features() else 3]
    assert [row["version"] for row in rows] == 6 * versions
    assert ("left out torch in bfloat16" in shown) == ("bf16" not in cpu_features())
    answers = {row["version"]: row["answer"] for row in rows if row["case"] == "random-base, float32"}
    assert answers["lsar_jax"] == "differs by 0e+00"
    assert float(answers["torch"].removeprefix("differs by ")) < 1e-5
    # Without the peer, our own time is kept.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    python.chmod(0o755)
    assert "left out torch: no such package" in printed(main, ["speed", *options, "--python", python])
    assert {row["version"] for row in lines(tmp_path)[4:]} == {"lsar_jax"}
