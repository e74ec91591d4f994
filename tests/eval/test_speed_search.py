"""The benchmark of search: both sides find the same neighbours."""

import numpy as np

from eval.__main__ import main
from eval.speed import search
from tests.optional import need

need("faiss")


def test_both_find_the_same(capsys):
    options = ["--queries", "50", "--candidates", "300", "--dim", "16", "--k", "1", "3", "--repeats", "1"]
    assert main(["searchbench", *options]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if "k = " in line and line.startswith("│")]
    assert [row[3] for row in rows] == ["1", "3"]
    assert all(row[13] == "100.0" for row in rows), rows
    assert "mining with k = 4" in printed


def test_the_peers_find_the_same(rng):
    """PyTorch, the peer on a GPU, runs on a CPU here, with more queries than it takes at a time."""
    need("torch")
    queries, candidates = (rng.standard_normal((rows, 8)).astype(np.float32) for rows in (5000, 90))
    (_, faiss), (_, torch) = (make(queries, candidates) for make in (search._faiss, search._torch))
    (scores, ids), (own, found) = faiss(3), torch(3)
    np.testing.assert_array_equal(ids, found)
    np.testing.assert_allclose(scores, own, rtol=1e-5)
