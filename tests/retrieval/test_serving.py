"""Transforms in front of indexes and databases: queries in NumPy alone find what ``nearest`` finds."""

import numpy as np
import pytest

import lsar_jax as lj
from tests.optional import need

K = 4


@pytest.fixture(scope="module")
def stored():
    rng = np.random.default_rng(0)
    return {code: rng.normal(size=(300, 16)) + 3 * rng.normal(size=16) for code in ("de", "en", "sw")}


def in_faiss(vectors, queries, folder):
    faiss = need("faiss")
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(queries, K)


def in_lancedb(vectors, queries, folder):
    lancedb = need("lancedb")
    rows = [{"row": row, "vector": vector} for row, vector in enumerate(vectors)]
    lancedb.connect(folder / "db").create_table("documents", rows)
    # As a service does, which opens what another process wrote.
    table = lancedb.connect(folder / "db").open_table("documents")
    found = [table.search(one).distance_type("cosine").limit(K).to_list() for one in queries]
    return tuple(
        np.array([[value(one) for one in rows] for rows in found])
        for value in (lambda one: 1 - one["_distance"], lambda one: one["row"])
    )


FITS = {
    "lsar": lj.transforms.fit_lsar,
    "whitening": lj.transforms.fit_whitening,
    "center by language, then lsar": lambda x: lj.transforms.fit_center(x).then(lj.transforms.fit_lsar(x)),
}


@pytest.mark.parametrize(("name", "search"), [*((name, in_faiss) for name in FITS), ("lsar", in_lancedb)])
def test_queries_in_numpy_find_what_nearest_finds(stored, name, search, tmp_path):
    fitted = FITS[name](stored)
    languages = list(stored) if fitted.languages else [None] * len(stored)
    maps = {code: fitted.as_affine(code) for code in languages}

    def prepared(x, code):
        matrix, offset = maps[code]
        y = x @ matrix.T + offset
        return (y / np.linalg.norm(y, axis=-1, keepdims=True)).astype(np.float32)

    vectors = np.concatenate([prepared(x, code) for x, code in zip(stored.values(), languages, strict=True)])
    queries = stored["en"][:50]
    scores, rows = search(vectors, prepared(queries, languages[1]), tmp_path)
    moved = np.concatenate([fitted(x, code) for x, code in zip(stored.values(), languages, strict=True)])
    expected = lj.retrieval.nearest(fitted(queries, languages[1]), moved, K)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(scores, expected[0], atol=1e-6)
    assert rows[:, 0].tolist() == list(range(300, 350))
