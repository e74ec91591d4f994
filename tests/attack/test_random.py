"""Random input and damage: the result is right, or the call is refused in a few lines that are the library's own."""

import inspect
import json
import tempfile
import warnings
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lsar_jax as lj
from lsar_jax.corpora.records import Records
from lsar_jax.encoders.options import EncodeOptions
from tests.reference import unit
from tests.rewriting import rewrite

pytestmark = pytest.mark.usefixtures("unchecked")

many = settings(derandomize=True, deadline=None, database=None, max_examples=40, suppress_health_check=HealthCheck)
SEEDS = st.integers(0, 1 << 30).map(np.random.default_rng)
DIM = 8
# Parts of other libraries' messages, which do not say what to do.
FOREIGN = ("broadcast", "has no attribute", "unpack", "list index", "Incompatible shapes", "pickle", "unsafe")


def refused(call):
    """Whether a call is refused in words that are the library's own; any other exception fails the test."""
    try:
        call()
    except (ValueError, TypeError, OSError) as error:
        text, kind = str(error), type(error)
    else:
        return False
    # Another library's subclasses, such as UnicodeDecodeError, are not in our words.
    assert issubclass(kind, OSError) or kind in (ValueError, TypeError) or kind.__module__.startswith("lsar_jax")
    assert 0 < len(text.splitlines()) < 24
    assert not any(part in text for part in FOREIGN)
    return True


def close(x, y, atol=1e-3):
    return np.shape(x) == np.shape(y) and np.allclose(np.asarray(x, float), np.asarray(y, float), rtol=atol, atol=atol)


def vectors(rng, count=24):
    return {code: rng.standard_normal((count, DIM)).astype("f4") + i for i, code in enumerate(("de", "en", "zh"))}


# The same numbers in another form.
LAYOUTS = {
    "fortran": np.asfortranarray, "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "reversed": lambda x: x[::-1].copy()[::-1], "big-endian": lambda x: x.astype(">f4"), "float64": np.copy,
    "float16": lambda x: x.astype("f2"), "jax": lambda x: jnp.asarray(x, jnp.float32),
    "unaligned": lambda x: np.frombuffer(b"." + x.astype("f4").tobytes(), "f4", offset=1).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape), "ties": lambda x: np.repeat(x[::4], 4, 0),
    "subclass": lambda x: x.view(type("Vectors", (np.ndarray,), {})), "zero row": lambda x: x * (x[:, :1] != x[3, 0]),
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
    return -np.sort(-(unit(x) @ unit(y).T), axis=1)[:, :3]


TWINS = {
    "center": lambda x, y: x - x.mean(0), "moments": lambda x, y: x.mean(0), "nearest": cosines,
    "candidates": lambda x, y: cosines(y, x),
}  # fmt: skip


@many
@given(SEEDS, st.sampled_from(sorted(CALLS)), st.sampled_from(sorted(LAYOUTS)))
def test_the_layout_of_an_array_does_not_count(rng, call, layout):
    x, y = rng.standard_normal((2, 24, DIM)) + rng.integers(3)
    x = LAYOUTS[layout](x)
    found = CALLS[call](x, y)
    assert close(found, TWINS.get(call, CALLS[call])(np.array(np.asarray(x), float), y))


JUNK = (
    None, True, False, -1, 0, 1, 2, 10**30, 10**400, 1.5, 0.5, -0.5, float("nan"), float("inf"), 1e-300, "", "x",
    "de", "mean", "\udc80", b"de", [], [1], ["de"], (), (1, 2), {}, {"de": 1}, {"de"}, object(), np.int64(2),
    np.float32(0.5), print,
)  # fmt: skip


def fits(value, kind):
    """Whether a value may be one of an annotation."""
    types = {"None": type(None), "bool": bool, "int": int | np.integer, "float": int | np.integer | float | np.floating}
    types |= {"str": str, "Literal": str} | dict.fromkeys(("Sequence", "Iterable", "tuple", "Any", "Array"), object)
    if isinstance(value, bool) and not any(name in kind for name in ("bool", "Any")):
        return False
    return any(name in kind and isinstance(value, given) for name, given in types.items())


@many
@given(st.data())
def test_options_of_any_kind(tiny, data):
    x = vectors(np.random.default_rng(0))
    methods = ("center", "lsar", "lir", "whitening", "leace", "cbie", "identifier")
    calls = {f"fit_{name}": partial(getattr(lj.transforms, f"fit_{name}"), x) for name in methods}
    pair = (lj.retrieval.nearest, lj.mining.mine, lj.retrieval.similarity)
    calls |= {call.__name__: partial(call, x["de"], x["en"]) for call in pair}
    calls |= {"encode": partial(tiny.encode, ["abc"]), "moments": partial(lj.Moments.from_embeddings, x["de"])}
    name = data.draw(st.sampled_from(sorted(calls)))
    parts = inspect.signature(calls[name]).parameters.values()
    kinds = {part.name: str(part.annotation) for part in parts if part.kind is part.KEYWORD_ONLY}
    kinds |= {key: str(kind) for key, kind in EncodeOptions.__annotations__.items()} if name == "encode" else {}
    option, value = data.draw(st.sampled_from(sorted(kinds.keys() - {"mesh"}))), data.draw(st.sampled_from(JUNK))
    assert refused(lambda: calls[name](**{option: value})) or fits(value, kinds[option])


def foreign_array(rng, arrays, header=None):
    """Replaces an array by one of another type, shape or value, or leaves it out."""
    name = rng.choice(sorted(arrays))
    value = arrays.pop(name)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        changes = [value.astype(kind) for kind in ("f8", "f2", "i4", "?")] + [value[..., :-1], value[None], value[:0]]
        changes += [np.full_like(value, number) for number in (np.nan, 3e38)] + [None]
    if (changed := changes[rng.integers(len(changes))]) is not None:
        arrays[name] = np.ascontiguousarray(changed)


@many
@given(SEEDS)
def test_arrays_of_others_in_a_file_of_moments(rng):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        x = vectors(rng)
        lj.save_moments(path, {code: lj.Moments.from_embeddings(x[code], second_moment=True) for code in x})

        def read():
            center = lj.transforms.fit_center(lj.load_moments(path)[0])
            assert np.isfinite(center(x["de"], "de")).all()

        assert not refused(read)
        rewrite(path, partial(foreign_array, rng))
        refused(read)


SUFFIXES = ("txt", "csv", "tsv", "TXT", "txt.gz", "jsonl", "ndjson", "jsonl.gz", "parquet")


@many
@given(st.sampled_from(SUFFIXES), st.binary(max_size=200))
def test_text_of_any_bytes(suffix, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"in.{suffix}")
        path.write_bytes(content)
        refused(lambda: list(Records([path])))


@many
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")), min_size=1))
def test_text_is_read_as_it_was_written(texts):
    assume(texts[-1] and not texts[0].startswith("\ufeff"))
    with tempfile.TemporaryDirectory() as folder:
        for suffix, lines in (("txt", texts), ("jsonl", [json.dumps({"text": text}) for text in texts])):
            path = Path(folder, f"in.{suffix}")
            path.write_text("\n".join(lines), encoding="utf-8")
            assert [record.text for record in Records([path])] == texts
