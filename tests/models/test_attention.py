"""Attention by every means that runs here, against the plain one and a float64 twin."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.mesh import data_mesh, split
from lsar_jax.models import attention
from lsar_jax.models.attention import AttentionMask, attend


def case(rng, batch=12, length=16, heads=2, groups=2, dtype="float32", **options):
    heads_of = {"query": heads, "key": groups, "value": groups}
    states = (jnp.asarray(rng.standard_normal((batch, length, count, 8)), dtype) for count in heads_of.values())
    lengths = jnp.asarray(rng.integers(0, length // 3 + 1, (batch, 3)), jnp.int32)
    return *states, AttentionMask.of(lengths, length, **options)


def exact(query, key, value, mask, scale=8**-0.5):
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    key, value = (np.repeat(x, query.shape[2] // x.shape[2], axis=2) for x in (key, value))
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) * scale
    allowed = np.zeros(scores[:, 0].shape, bool)
    for row, lengths in enumerate(np.asarray(mask.lengths)):
        names = np.repeat(np.arange(len(lengths) + 1), [*lengths, query.shape[1] - lengths.sum()])
        for one, two in np.ndindex(allowed.shape[1:]):
            seen = names[one] == names[two] and (two <= one or not mask.causal)
            allowed[row, one, two] = seen and (mask.window is None or abs(one - two) <= mask.window)
    scores = np.where(allowed[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(axis=-1, keepdims=True), value)


def in_sentences(mask):
    """Returns where there is a sentence; what padding attends to means nothing."""
    return np.asarray(mask.segments) < mask.lengths.shape[1]


@pytest.fixture
def asked(monkeypatch):
    """The calls of jax's attention, with cuDNN's replaced by its own."""
    calls, real = [], jax.nn.dot_product_attention

    def attention(query, *others, implementation, **given):
        calls.append({"implementation": implementation, "shape": query.shape, **given})
        return real(query, *others, implementation="xla", **given)

    monkeypatch.setattr(jax.nn, "dot_product_attention", attention)
    return calls


SEEN = [
    {}, {"causal": True}, {"window": 2}, {"causal": True, "window": 1}, {"window": 8}, {"causal": True, "window": 9},
]  # fmt: skip


@pytest.mark.parametrize("options", SEEN)
@pytest.mark.parametrize(
    "groups", [pytest.param(4, marks=pytest.mark.slow), 2, pytest.param(1, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["xla", "rows", "cudnn"])
def test_who_attends_to_whom(rng, monkeypatch, asked, options, groups, kind):
    """Rows of 70 positions in blocks of 8 or 16, and with scores for 24 queries of a row at a time."""
    monkeypatch.setattr(attention, "_BLOCK", 8)
    monkeypatch.setattr("lsar_jax.models.written_out._CACHED", 0)  # one group at a time
    monkeypatch.setattr(attention, "_SCORES", dict.fromkeys(attention._SCORES, 24 * 4 * 4 * 70))
    dtype = "bfloat16" if kind == "cudnn" else "float32"
    *states, mask = case(rng, 4, 70, heads=4, groups=groups, dtype=dtype, **options)
    with jax.numpy_dtype_promotion("standard" if kind == "cudnn" else "strict"):
        found = np.asarray(attend(kind, *states, mask, scale=0.5), np.float64)
    expected = exact(*states, mask, scale=0.5)
    inside, error = in_sentences(mask), 0.03 if kind == "cudnn" else 1e-5
    np.testing.assert_allclose(found[inside], expected[inside], rtol=error, atol=error)
    assert np.isfinite(found).all()
    assert {call["implementation"] for call in asked} == {"xla": set(), "rows": {"xla"}, "cudnn": {"cudnn"}}[kind]
    window = options.get("window")
    if kind == "xla":
        return
    if window is not None:
        block = max(8, -(-window // 8) * 8)
        assert {call["shape"][1] for call in asked} == {block}
    elif kind != "cudnn":
        assert {call["shape"][1] for call in asked} == {24}


@pytest.mark.parametrize(("window", "reached"), [(30, True), (31, False), (99, False)])
def test_a_window_that_no_row_reaches_is_none(asked, window, reached):
    query = jnp.zeros((1, 32, 2, 8), jnp.bfloat16)
    with jax.numpy_dtype_promotion("standard"):
        attend("cudnn", query, query, query, AttentionMask.of(np.array([[32]], np.int32), 32, window=window))
    [call] = asked
    assert ("mask" in call) == reached != ("key_value_seq_lengths" in call)


@pytest.mark.parametrize("causal", [False, True])
def test_cost_of_a_window_is_linear(monkeypatch, causal):
    """Operations as XLA counts them, in steps only once; without a window they grow with the square of the length."""
    monkeypatch.setitem(attention._SCORES, "xla", 1 << 30)
    monkeypatch.setattr("lsar_jax.models.written_out._CACHED", 1 << 30)

    def cost(length, window):
        states = [jax.ShapeDtypeStruct((1, length, 2, 16), jnp.float32)] * 3
        lengths = np.array([[length // 2, length // 3]], np.int32)

        def run(*states):
            return attend("xla", *states, AttentionMask.of(lengths, length, causal=causal, window=window))

        return jax.jit(run).lower(*states).compile().cost_analysis()["flops"]

    one, two, four = (cost(length, 64) for length in (1024, 2048, 4096))
    np.testing.assert_allclose([two / one, four / two], 2, rtol=0.01)
    assert cost(2048, None) / cost(1024, None) > 3.9
    keys = 128 + 64 + 64 * (not causal)
    np.testing.assert_allclose(cost(4096, None) / four, 4096 / keys, rtol=0.1)


def test_memory_of_long_rows(rng, monkeypatch):
    """The scores of a row are never all there, whether for the result or the gradient."""
    length = 2048
    monkeypatch.setitem(attention._SCORES, "xla", 1 << 20)
    states = [jax.ShapeDtypeStruct((2, length, 2, 8), jnp.float32)] * 3
    mask = AttentionMask.of(np.array([[1500], [2000]], np.int32), length)

    def loss(*states):
        return jnp.sum(attend("xla", *states, mask) ** 2)

    for function in (loss, jax.grad(loss, (0, 1, 2))):
        memory = jax.jit(function).lower(*states).compile().memory_analysis()
        assert memory.temp_size_in_bytes < 4 * 2 * length**2


@pytest.mark.parametrize(("fit", "steps"), [(12, 1), (11, 2), (5, 3), (1, 12), (0, 12)])
def test_rows_a_few_at_a_time(rng, monkeypatch, fit, steps):
    """Scores of ``fit`` rows are kept: the parts are equal, so 5 of 12 rows make three parts of four."""
    query, key, value, mask = given = case(rng, causal=True)
    monkeypatch.setitem(attention._SCORES, "rows", fit * 4 * 2 * 16**2)
    program = jax.make_jaxpr(lambda *given: attend("rows", *given))(*given)
    lengths_of_loops = [one.params["length"] for one in program.eqns if one.primitive.name == "scan"]
    assert lengths_of_loops == ([steps] if steps > 1 else [])
    np.testing.assert_allclose(attend("rows", *given), exact(*given), rtol=1e-5, atol=1e-6)
    # Rows are not mixed up: without the first row's values, the others are the same.
    other = attend("rows", query, key, value.at[0].set(0), mask)
    np.testing.assert_array_equal(other[1:], attend("rows", *given)[1:])


@pytest.mark.parametrize(
    ("fit", "options"),
    [
        (8, {"causal": True}),
        (20, {"window": 7}),
        (99, {"window": 8, "causal": True}),
        (52, {}),
        (52, {"dtype": "bfloat16"}),
    ],
)
def test_gradients_equal_those_of_the_plain_one(rng, monkeypatch, fit, options):
    """With scores for ``fit`` queries at a time; 52 are a row of the two."""
    *states, mask = case(rng, 2, 52, heads=4, **options)
    inside = jnp.asarray(in_sentences(mask))[:, :, None, None]

    @partial(jax.jit, static_argnums=0)
    def gradients(kind, *states):
        def loss(*states):
            return jnp.sum(jnp.where(inside, attend(kind, *states, mask).astype(jnp.float32), 0) ** 2)

        return [x.astype(jnp.float32) for x in jax.grad(loss, (0, 1, 2))(*states)]

    with jax.numpy_dtype_promotion("standard"):  # as jax's own attention needs in bfloat16
        plain = gradients("rows", *states)
        monkeypatch.setattr(attention, "_SCORES", dict.fromkeys(("rows", "xla"), fit * 4 * 4 * 52))
        monkeypatch.setattr(attention, "_BLOCK", 8)
        monkeypatch.setattr("lsar_jax.models.written_out._CACHED", 0)
        gradients.clear_cache()
        for kind in ("rows", "xla")[: 1 if "dtype" in options else 2]:
            for one, other in zip(plain, gradients(kind, *states), strict=True):
                assert np.abs(one).max() > 0.1
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=0.05 if "dtype" in options else 1e-5)


def test_gradients_of_keys_are_summed_in_float32(rng, monkeypatch):
    """The sums over 128 blocks differ from exact ones no more than one product does."""
    query, key, value, mask = case(rng, 1, 512, heads=2, groups=1)
    rounded = [x.astype(jnp.bfloat16) for x in (query, key, value)]

    def gradients(*states):
        return jax.jit(jax.grad(lambda *states: attend("rows", *states, mask).astype("float32").sum(), (1, 2)))(*states)

    with jax.numpy_dtype_promotion("standard"):
        expected = gradients(*(x.astype(jnp.float32) for x in rounded))
        plain = gradients(*rounded)
        monkeypatch.setitem(attention._SCORES, "rows", 4)
        monkeypatch.setattr(attention, "_BLOCK", 4)
        blocks = gradients(*rounded)
    for exact_one, *others in zip(expected, plain, blocks, strict=True):
        one, two = (np.abs(np.asarray(x, np.float32) - exact_one).max() for x in others)
        assert two < 2 * one


def test_no_device_waits_for_another(rng, monkeypatch):
    """Where rows are split over devices, as in training, each has its share of each step."""
    mesh = data_mesh(jax.devices())
    assert mesh.size == 4
    monkeypatch.setitem(attention._SCORES, "rows", 4 * 4 * 2 * 16**2)
    given = case(rng)
    placed = jax.device_put(given, split(mesh))
    compiled = jax.jit(lambda *given: attend("rows", *given), out_shardings=split(mesh)).lower(*placed).compile()
    text = compiled.as_text()
    assert "while(" in text
    assert not [name for name in ("all-gather", "all-to-all", "all-reduce", "collective-permute") if name in text]
    np.testing.assert_allclose(compiled(*placed), exact(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("places", "options", "form"),
    [
        (1, {}, {"key_value_seq_lengths"}),
        (1, {"causal": True}, {"key_value_seq_lengths"}),
        (1, {"causal": True, "window": 4}, {"local_window_size"}),
        (1, {"window": 4}, {"mask"}),
        (2, {}, {"mask"}),
        (2, {"causal": True, "window": 4}, {"mask"}),
    ],
)
def test_what_cudnn_is_given(rng, asked, places, options, form):
    """One sentence a row needs no matrix of who attends to whom, unless it looks ahead within a window."""
    query = jnp.asarray(rng.standard_normal((2, 32, 2, 8)), jnp.bfloat16)
    lengths = np.array([[20, 4], [0, 0]], np.int32)[:, :places]
    mask = AttentionMask.of(lengths, 32, **options)
    with jax.numpy_dtype_promotion("standard"):
        found = np.asarray(attend("cudnn", query, query, query, mask), np.float64)
    [given] = asked
    assert given["implementation"] == "cudnn"
    assert {"key_value_seq_lengths", "local_window_size", "mask"} & set(given) == form
    assert given.get("is_causal", False) == (options.get("causal", False) and "mask" not in form)
    if "key_value_seq_lengths" in form:
        assert given["key_value_seq_lengths"].tolist() == [20, 1]
    inside = in_sentences(mask)
    np.testing.assert_allclose(found[inside], exact(query, query, query, mask)[inside], rtol=0.03, atol=0.03)


@pytest.mark.parametrize(
    ("kind", "dtype", "length", "width", "expected"),
    [
        ("cudnn", "bfloat16", 32, 8, "cudnn"),
        ("cudnn", "bfloat16", 24, 8, "xla"),
        ("cudnn", "bfloat16", 32, 256, "xla"),
        ("cudnn", "float32", 32, 8, "xla"),
        ("xla", "bfloat16", 32, 8, None),
    ],
)
def test_where_cudnn_can_run(asked, kind, dtype, length, width, expected):
    query = jnp.zeros((2, length, 2, width), dtype)
    with jax.numpy_dtype_promotion("standard"):
        attend(kind, query, query, query, AttentionMask.of(np.array([[20], [3]], np.int32), length))
    assert [call["implementation"] for call in asked] == ([expected] if expected else [])
