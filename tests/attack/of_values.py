"""Attacks with arrays, options and sentences."""

from tests.conftest import TINY  # before jax, whose devices it sets

# isort: split
import inspect
from functools import partial

import jax.numpy as jnp
import numpy as np

import lsar_jax as lj
from lsar_jax.encoders.options import EncodeOptions
from tests.attack.outcome import DIM, allowed, close, drawn, expect, tiny, vectors

# The same numbers in another form, and arrays that are no embeddings.
LAYOUTS = {
    "fortran": np.asfortranarray, "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1], "big-endian": lambda x: x.astype(">f4"), "float64": np.copy,
    "float16": lambda x: x.astype("f2"), "jax": lambda x: jnp.asarray(x, jnp.float32),
    "unaligned": lambda x: np.frombuffer(b"." + x.astype("f4").tobytes(), "f4", offset=1).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape), "ties": lambda x: np.repeat(x[::4], 4, 0),
    "subclass": lambda x: x.view(type("Vectors", (np.ndarray,), {})), "zero row": lambda x: x * (x[:, :1] != x[3, 0]),
}  # fmt: skip
BAD = {
    "nan": lambda x: np.where(x == x[2, 3], np.nan, x), "infinity": lambda x: np.where(x == x[2, 3], -np.inf, x),
    "too large": lambda x: np.where(x == x[2, 3], 1e39, x), "masked": lambda x: np.ma.array(x, mask=x > 1),
    "records": lambda x: np.zeros(len(x), [("x", "f4")]), "dates": lambda x: x.astype("M8[s]"), "iterator": iter,
    "wider": lambda x: np.concatenate([x, x], 1), "no rows": lambda x: x[:0], "number": lambda x: np.float32(3),
    "list": np.ndarray.tolist, "one row": lambda x: x[0], "no width": lambda x: x[:, :0], "none": lambda x: None,
    "three axes": lambda x: x[None], "text": lambda x: "abc", "dict": lambda x: {1: x}, "buffer": memoryview,
    **{str(kind): partial(np.ndarray.astype, dtype=kind) for kind in (bool, int, complex, object, str)},
}  # fmt: skip
CALLS = {
    "center": lambda x, y: lj.transforms.fit_center({"de": x, "en": y})(x, "de"),
    "lsar": lambda x, y: lj.transforms.fit_lsar({"de": x, "en": y, "zh": y + 1}, rank=1)(x),
    "lir": lambda x, y: lj.transforms.fit_lir({"de": x, "en": y})(x, "de"),
    "whitening": lambda x, y: lj.transforms.fit_whitening({"de": x, "en": y})(x, "de"),
    "leace": lambda x, y: lj.transforms.fit_leace({"de": x, "en": y})(x),
    "moments": lambda x, y: lj.Moments.from_embeddings(x).mean,
    "nearest": lambda x, y: lj.retrieval.nearest(x, y, k=3)[0],
    "candidates": lambda x, y: lj.retrieval.nearest(y, x, k=3)[0],
    "similarity": lj.retrieval.similarity,
    "ranks": lambda x, y: lj.retrieval.candidate_ranks(x, y, np.zeros((len(x), 1), int)),
    "mine": lambda x, y: lj.mining.mine(x, y, k=2).score,
    "isoscore": lambda x, y: lj.geometry.isoscore(x),
}


def cosines(x, y):
    x, y = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300) for z in (x, y))
    return -np.sort(-(x @ y.T), axis=1)[:, :3]


TWINS = {
    "center": lambda x, y: x - x.mean(0), "moments": lambda x, y: x.mean(0), "nearest": cosines,
    "candidates": lambda x, y: cosines(y, x),
}  # fmt: skip


def arrays(folder, rng, note):
    x, y = rng.standard_normal((2, 24, DIM)) + rng.integers(3)
    call, kinds = drawn(rng, CALLS), drawn(rng, [LAYOUTS, BAD])
    kind = drawn(rng, kinds)
    note(f"{call} of {kind}")
    given = kinds[kind](x)
    found = allowed(lambda: CALLS[call](given, y))
    expect(kinds is LAYOUTS or (kind == "wider" and call in ("moments", "isoscore")), "was taken")
    expect(close(found, TWINS.get(call, CALLS[call])(np.array(np.asarray(given), float), y)), "is not that of float64")


JUNK = (
    None, True, False, -1, 0, 1, 2, 10**30, 10**400, 1.5, 0.5, -0.5, float("nan"), float("inf"), 1e-300, "", "x",
    "de", "mean", "\udc80", b"de", [], [1], ["de"], (), (1, 2), {}, {"de": 1}, {"de"}, object(), np.int64(2),
    np.float32(0.5), print,
)  # fmt: skip


def fits(value, kind):
    """Whether a value may be one of an annotation."""
    types = {"None": type(None), "bool": bool, "int": int | np.integer, "float": int | np.integer | float | np.floating}
    types |= {"str": str, "Literal": str} | dict.fromkeys(("Sequence", "Iterable", "tuple", "Any", "Array"), object)
    return any(name in kind and isinstance(value, given) for name, given in types.items()) and not (
        isinstance(value, bool) and not any(name in kind for name in ("bool", "Any"))
    )


def options(folder, rng, note):
    x = vectors(rng)
    methods = ("center", "lsar", "lir", "whitening", "leace", "cbie", "identifier")
    calls = [(getattr(lj.transforms, f"fit_{name}"), (x,)) for name in methods]
    calls += [(call, (x["de"], x["en"])) for call in (lj.retrieval.nearest, lj.mining.mine, lj.retrieval.similarity)]
    calls += [(lj.Moments.from_embeddings, (x["de"],)), (lj.load_encoder, (TINY,)), (tiny().encode, (["abc"],))]
    call, given = drawn(rng, calls)
    parameters = inspect.signature(call).parameters.values()
    kinds = {part.name: str(part.annotation) for part in parameters if part.kind is part.KEYWORD_ONLY}
    kinds |= {name: str(kind) for name, kind in EncodeOptions.__annotations__.items()} if call == tiny().encode else {}
    name, value = drawn(rng, sorted(kinds.keys() - {"mesh"}) or ["unknown"]), drawn(rng, JUNK)
    note(f"{call.__name__} with {name}={value!r}")
    found = allowed(lambda: call(*given, **{name: value}))
    expect(fits(value, kinds[name]), f"was taken for {kinds[name]}")
    expect(not isinstance(found, np.ndarray) or np.isfinite(found).all(), "is not finite")


def sentences(folder, rng, note):
    parts = [*"ab é한語🎉ﬁ\0\t\n\r", "e\u0301", "\u1112\u1161", *"\u2028\ufeff\u200d\u202e", "[SEP]", "[PAD]"]
    made = ["".join(rng.choice(parts, rng.integers(12))) for _ in range(rng.integers(1, 6))]
    if wrong := rng.random() < 0.3:
        made[rng.integers(len(made))] = drawn(rng, ["\udc80", None, 5, b"a", ["a"], float("nan"), np.array("a")])
    given = drawn(rng, [list, tuple, iter, lambda x: (one for one in x), lambda x: np.array([*x, None], object)[:-1]])
    note(repr(made))
    x = allowed(lambda: tiny().encode(given(made)))
    expect(not wrong, "was taken")
    alone = np.stack([tiny().encode(one) for one in made])
    difference = np.linalg.norm(x - alone, axis=1) / np.linalg.norm(alone, axis=1)
    expect(np.isfinite(x).all() and (difference < 1e-5).all(), f"differs from the sentence alone: {difference}")
