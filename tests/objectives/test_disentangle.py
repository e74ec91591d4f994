"""DREAM, MEAT and ORACLE: by hand, against float64 twins with all pairs written out, and against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.objectives.cosine import cosine
from lsar_jax.objectives.disentangle import (
    ALONE,
    Head,
    Heads,
    Objective,
    TranslationBatch,
    apply_heads,
    clustering_loss,
    discriminator_loss,
    objective_terms,
)

N, D, L = 12, 6, 4


def cos(x, y):
    return float(x @ y / np.sqrt(x @ x) / np.sqrt(y @ y))


def pairs_mean(value, n):
    """The mean of a function of i and j over all i and j."""
    return np.mean([[value(i, j) for j in range(n)] for i in range(n)])


@pytest.fixture
def case(rng):
    """Heads, a probe and three batches, in float32, and the same in float64."""
    head = lambda rows: Head(*(jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((rows, D), rows)))  # noqa: E731
    heads, probe = Heads(head(D), head(D)), head(L)

    def batch():
        x, y = (jnp.asarray(rng.standard_normal((N, D)), jnp.float32) for _ in range(2))
        return TranslationBatch(x, y, jnp.zeros(N, jnp.int32), jnp.asarray(rng.integers(1, L, N), jnp.int32))

    return heads, probe, batch(), batch(), batch()


def twin(heads, probe, batch, random, same):
    """Every term in float64, as methods print them."""
    f = lambda x: np.asarray(x, np.float64)  # noqa: E731
    apply = lambda head, x: f(x) @ f(head.matrix).T + f(head.offset)  # noqa: E731
    (sm, sl), (tm, tl) = ([apply(head, x) for head in heads] for x in (batch.source, batch.target))
    (rsm, _), (rtm, _) = ([apply(head, x) for head in heads] for x in (random.source, random.target))
    (_, qsl), (_, qtl) = ([apply(head, x) for head in heads] for x in (same.source, same.target))
    es, et = f(batch.source), f(batch.target)
    together = lambda x, y: np.mean([1 - cos(a, b) for a, b in zip(x, y, strict=True)])  # noqa: E731
    apart = lambda x, y: np.mean([max(0, cos(a, b)) for a, b in zip(x, y, strict=True)])  # noqa: E731
    soft = lambda x: np.log(np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))  # noqa: E731
    classify = lambda x, label: -np.mean([row[n] for row, n in zip(soft(apply(probe, x)), label, strict=True)])  # noqa: E731
    labels = np.asarray(batch.source_language), np.asarray(batch.target_language)
    n = len(es)
    off = [(i, j) for i in range(n) for j in range(n) if i != j]
    of_one = [(i, j) for i, j in off if labels[1][i] == labels[1][j]]
    pull = lambda i, j: 2 - cos(sl[i], sl[j]) - cos(tl[i], tl[j])  # noqa: E731
    return {
        "dream": {
            "meaning": together(sm, tm) + apart(sm, rsm) + apart(tm, rtm),
            "reconstruction": np.mean((sm + sl - es) ** 2) + np.mean((tm + tl - et) ** 2),
            "language": together(sl, qsl) + together(tl, qtl),
            "identification": classify(sl, labels[0]) + classify(tl, labels[1]),
        },
        "meat": {
            "reconstruction": together(sm + sl, es) + together(tm + tl, et),
            "cross_reconstruction": together(sm + tl, et) + together(tm + sl, es),
            "language": apart(sl, tl),
            "adversarial": -np.mean(soft(apply(probe, sm))) - np.mean(soft(apply(probe, tm))),
        },
        "separation": {
            "paper": apart(sm, sl) + apart(tm, tl),
            "code": apart(sl, tl),
            "alone": np.mean([abs(cos(a, b)) for a, b in zip((*sm, *tm), (*sl, *tl), strict=True)]) * 2 + apart(sl, tl),
        },
        "agreement": together(sm, tm),
        "clustering": {
            "all": pairs_mean(pull, n),
            "off_diagonal": np.mean([pull(i, j) for i, j in off]),
            "same_language": np.mean([pull(i, j) for i, j in of_one]),
        },
        "discriminator": classify(sm, labels[0]) + classify(tm, labels[1]),
    }


@pytest.mark.parametrize("base", ["dream", "meat", "none"])
@pytest.mark.parametrize(
    ("separation", "clustering"), [("paper", "off_diagonal"), ("code", "all"), ("alone", "same_language")]
)
def test_every_term_is_its_twin(case, base, separation, clustering):
    expected = twin(*case)
    objective = Objective(base, True, separation, clustering)
    terms = objective_terms(objective, *case)
    wanted = expected.get(base, {}) | {
        "clustering": expected["clustering"][clustering],
        "separation": expected["separation"][separation],
    }
    if separation == "alone":
        wanted["agreement"] = expected["agreement"]
    assert list(terms) == list(wanted) == list(objective.terms)
    for name, value in wanted.items():
        assert float(terms[name]) == pytest.approx(value, rel=2e-6, abs=2e-6), name
    heads, probe, batch, *_ = case
    source, target = apply_heads(heads, batch.source), apply_heads(heads, batch.target)
    loss = float(discriminator_loss(batch, source, target, probe))
    assert loss == pytest.approx(expected["discriminator"], rel=2e-6)


def test_stand_alone_objectives(case):
    """The five classes of the released code, each written out as what it adds up."""
    heads, probe, batch, *_ = case
    first, second = (TranslationBatch(*(x[rows] for x in batch)) for rows in (slice(N // 2), slice(N // 2, N)))
    # DREAM's terms compare the first half of a batch with the second; ORACLE's are of the whole.
    dream, whole = twin(heads, probe, first, second, second)["dream"], twin(heads, probe, batch, batch, batch)
    within = whole["clustering"]["all"] + whole["agreement"]
    between = whole["separation"]["alone"]
    expected = {
        "alone1": within + between,
        "alone2": dream["meaning"] + between,
        "alone3": dream["meaning"] + dream["language"] + between,
        "alone4": whole["meat"]["adversarial"] + within + between,
        "alone5": dream["meaning"] + dream["language"] + within + between,
    }
    for name, objective in ALONE.items():
        terms = objective_terms(objective, heads, probe, batch)
        assert float(sum(terms.values())) == pytest.approx(expected[name], rel=5e-6)


@pytest.mark.parametrize(("base", "separation"), [("dream", "paper"), ("meat", "code"), ("none", "alone")])
def test_gradients_are_finite_at_zero(base, separation):
    zero = TranslationBatch(jnp.zeros((N, D)), jnp.zeros((N, D)), jnp.zeros(N, jnp.int32), jnp.ones(N, jnp.int32))
    heads = Heads(*(Head(jnp.zeros((D, D)), jnp.zeros(D)) for _ in range(2)))
    probe = Head(jnp.zeros((L, D)), jnp.zeros(L))
    objective = Objective(base, True, separation, "same_language")

    def loss(heads, probe, batch):
        return sum(objective_terms(objective, heads, probe, batch, zero, zero).values())

    value, grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(heads, probe, zero)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


@pytest.mark.parametrize(("scale", "dtype"), [(1e18, "float32"), (3e37, "float32"), (1.0, "float16"), (1e3, "float16")])
def test_cosines_of_vectors_of_any_length(rng, scale, dtype):
    """Also where squares are beyond float32 or float16."""
    x, y = (jnp.asarray(scale * rng.standard_normal((5, 400)), dtype) for _ in range(2))
    value, gradient = jax.value_and_grad(lambda x, y: cosine(x, y).sum())(x, y)
    np.testing.assert_allclose(value, cosine(*(side.astype(jnp.float32) / scale for side in (x, y))).sum(), rtol=1e-5)
    assert np.isfinite(gradient).all()


def test_heads_and_discriminator_are_trained_by_turns(case):
    heads, probe, batch, *_ = case

    def of_heads(heads, probe):
        return sum(objective_terms(Objective("meat", True), heads, probe, batch).values())

    def of_discriminator(heads, probe):
        return discriminator_loss(batch, apply_heads(heads, batch.source), apply_heads(heads, batch.target), probe)

    for loss, (trained, kept) in ((of_heads, (0, 1)), (of_discriminator, (1, 0))):
        grads = jax.jit(jax.grad(loss, argnums=(0, 1)))(heads, probe)
        assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(grads[trained]))
        assert all(not leaf.any() for leaf in jax.tree.leaves(grads[kept]))


def test_names_of_objectives():
    assert Objective("meat", True).name == "meat + oracle (paper)"
    assert Objective("none", True, "code", "all").name == "oracle (code, all)"
    assert [objective.name for objective in ALONE.values()] == [f"oracle alone{n}" for n in range(1, 6)]
    assert Objective("dream", True, without=("separation",)).name == "dream + oracle (no separation)"
    assert Objective("dream", True, "code", without=("clustering",)).name == "dream + oracle (code) - clustering"
    assert Objective("dream", False).terms == ("meaning", "reconstruction", "language", "identification")


def test_refusals(unchecked):
    for arguments, message in [
        ({"base": "cream"}, "base 'cream' is not one of dream, meat, none"),
        ({"separation": "eq7"}, "separation 'eq7' is not one of paper, code, alone"),
        ({"clustering": "none"}, "clustering 'none' is not one of off_diagonal, all, same_language"),
        ({"without": ("meaning",)}, "without is 'meaning'; the terms are reconstruction, cross_reconstruction, l"),
        ({"base": "none", "oracle": False}, "no term is left"),
        ({"oracle": False, "separation": "code"}, "separation and clustering apply only to ORACLE; add it"),
    ]:
        with pytest.raises(ValueError, match=message):
            Objective(**arguments)
    batch = TranslationBatch(jnp.ones((2, 2)), jnp.ones((2, 2)), jnp.zeros(2, jnp.int32), jnp.ones(2, jnp.int32))
    head = Head(jnp.eye(2), jnp.zeros(2))
    with pytest.raises(ValueError, match="random and same are missing"):
        objective_terms(Objective("dream", False), Heads(head, head), head, batch)
    with pytest.raises(ValueError, match="pairs is 'same_language', which needs target_language and languages"):
        clustering_loss(jnp.eye(2), jnp.eye(2), "same_language")
