# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does meaning leak into the language embedding?
#
# DREAM (Tiyajamorn et al. 2021) and MEAT (Kuroda et al. 2022) split a sentence embedding into two: one linear head
# extracts the meaning, another the language. If the split were clean, the *language* embedding would not help to find
# a translation. Ki, Park and Kim (2024) found that it does, called this semantic leakage, and added two losses,
# ORACLE, that reduce it.
#
# This notebook trains both, with and without ORACLE, on a small parallel text and asks: how large is the leak, does
# ORACLE close it, and what remains?
#
# Install with `pip install -e '.[notebooks]'` in a checkout. The notebook takes a minute or two on two CPU cores.
# The encoder and the text come with the packages; nothing is downloaded.

# %%
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import lsar_jax as lj

D = lj.objectives.disentangle
TranslationBatch, Head, Heads, Objective = D.TranslationBatch, D.Head, D.Heads, D.Objective
plt.rcParams.update({"figure.facecolor": "white", "figure.dpi": 90, "axes.grid": True, "grid.alpha": 0.3})

# %% [markdown]
# ## The text and the embeddings
#
# The Universal Declaration of Human Rights gives 25 paragraphs to fit on and 25 to test on, in English and seven other
# languages. Of the 25 paragraphs to fit on, five are kept for validation. The encoder stays as it is; only the heads
# are trained.

# %%
languages = ["en", "ar", "de", "hi", "ja", "ru", "sw", "zh"]  # English first: index 0
parts = [lj.corpora.udhr(part, languages) for part in ("fit", "test")]
encoder = lj.load_encoder("bundled", layer=8)
sentences = [sentence for text in parts for code in languages for sentence in text[code]]
fit, test = encoder.encode(sentences).reshape(2, len(languages), 25, encoder.dim)  # [language, paragraph, dim]

others = len(languages) - 1
validation = np.arange(2, 25, 5)
training = np.setdiff1d(np.arange(25), validation)
print(f"{others * len(training)} pairs to train on, {others * len(validation)} to validate on")

# %% [markdown]
# ## The objectives
#
# `lj.objectives.disentangle` has the losses as pure functions. An `Objective` says which of them are summed. ORACLE
# adds two terms: *clustering* pulls the language embeddings of a batch together, and *separation* pushes the meaning
# and the language embedding of a sentence apart (Equations 5 and 6 of the paper).

# %%
OBJECTIVES = {
    "DREAM": Objective("dream", oracle=False),
    "DREAM + ORACLE": Objective("dream", oracle=True),
    "MEAT": Objective("meat", oracle=False),
    "MEAT + ORACLE": Objective("meat", oracle=True),
}
for name, objective in OBJECTIVES.items():
    print(f"{name:15} {', '.join(objective.terms)}")

# %% [markdown]
# ## The training loop
#
# A step draws pairs of English and another language. DREAM also needs other pairs, of any language and of the same
# languages. MEAT trains a discriminator in turns with the heads. After every 25 steps, the heads and the validation
# loss are recorded; the heads with the lowest validation loss are used. All steps are one `lax.scan`, and three seeds
# run one after another in one program; with `jax.vmap` in place of `jax.lax.map` they run side by side, which suits a
# GPU.

# %%
RATE, SIZE, ROUNDS, EVERY, SEEDS = 3e-4, 32, 8, 25, 3
table = jnp.asarray(fit)


def init_head(key: jax.Array, out: int) -> Head:
    """Returns a random head, drawn as PyTorch draws a linear layer."""
    draw = partial(jax.random.uniform, minval=-(encoder.dim**-0.5), maxval=encoder.dim**-0.5)
    matrix, offset = jax.random.split(key)
    return Head(draw(matrix, (out, encoder.dim)), draw(offset, (out,)))


def pairs(numbers: jax.Array, rows: np.ndarray) -> TranslationBatch:
    """Returns English paragraphs and their translations; the pairs of all languages are numbered."""
    language, row = jnp.divmod(numbers, len(rows))
    row = jnp.asarray(rows)[row]
    return TranslationBatch(table[0, row], table[1 + language, row], jnp.zeros_like(language), 1 + language)


def further(numbers: jax.Array, by: jax.Array | int, count: int) -> jax.Array:
    """Returns the pairs that come later in the ``count`` of the same language, and after the last the first."""
    return numbers - numbers % count + (numbers + by) % count


def draw(key: jax.Array) -> tuple[TranslationBatch, ...]:
    """Returns a batch of training pairs, other pairs of any language, and other pairs of the same languages."""
    chosen, other, offset = jax.random.split(key, 3)
    count = len(training)
    numbers = jax.random.choice(chosen, others * count, (SIZE,), replace=False)
    of_any = jax.random.randint(other, (SIZE,), 0, others * count)
    of_same = further(numbers, jax.random.randint(offset, (SIZE,), 1, count), count)
    return tuple(pairs(each, training) for each in (numbers, of_any, of_same))


def validation_batches() -> tuple[TranslationBatch, ...]:
    """Returns all validation pairs, and the other pairs that DREAM compares them with."""
    count = len(validation)
    numbers = jnp.arange(others * count)
    return tuple(pairs(each, validation) for each in (numbers, jnp.roll(numbers, 7), further(numbers, 1, count)))


def train(objective: Objective, rate: float, key: jax.Array) -> tuple[Heads, jax.Array, jax.Array]:
    """Returns the heads, the training loss and the validation loss after each round."""
    optimizer = optax.adam(rate)

    def total(heads: Heads, probe: Head, batches: tuple[TranslationBatch, ...]) -> jax.Array:
        return sum(D.objective_terms(objective, heads, probe, *batches).values())

    def step(state: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
        heads, probe, of_heads, of_probe = state
        batches = draw(key)
        if objective.adversarial:  # MEAT's discriminator first
            source, target, _ = D.head_outputs(heads, batches[0])
            gradient = jax.grad(lambda probe: D.discriminator_loss(batches[0], source, target, probe))(probe)
            updates, of_probe = optimizer.update(gradient, of_probe)
            probe = optax.apply_updates(probe, updates)
        loss, (gradient, of_classifier) = jax.value_and_grad(total, argnums=(0, 1))(heads, probe, batches)
        updates, of_heads = optimizer.update(gradient, of_heads)
        heads = optax.apply_updates(heads, updates)
        if "identification" in objective.terms:  # DREAM's classifier learns with the heads
            updates, of_probe = optimizer.update(of_classifier, of_probe)
            probe = optax.apply_updates(probe, updates)
        return (heads, probe, of_heads, of_probe), loss

    def one_round(state: tuple, keys: jax.Array) -> tuple[tuple, tuple]:
        state, losses = jax.lax.scan(step, state, keys)
        heads, probe, *_ = state
        return state, (heads, losses.mean(), total(heads, probe, validation_batches()))

    *starts, rest = jax.random.split(key, 4)
    meaning, language, probe = (
        init_head(key, out) for key, out in zip(starts, (encoder.dim, encoder.dim, len(languages)), strict=True)
    )
    heads = Heads(meaning, language)
    state = (heads, probe, optimizer.init(heads), optimizer.init(probe))
    return jax.lax.scan(one_round, state, jax.random.split(rest, (ROUNDS, EVERY)))[1]


def run(objective: Objective, rate: float = RATE) -> tuple[Heads, np.ndarray, np.ndarray]:
    """Returns what ``train`` does, for all seeds."""
    keys = jax.random.split(jax.random.key(0), SEEDS)
    return jax.tree.map(np.asarray, jax.jit(partial(jax.lax.map, partial(train, objective, rate)))(keys))


runs = {name: run(objective) for name, objective in OBJECTIVES.items()}

# %%
for name, (_, losses, validated) in runs.items():
    steps = EVERY * (1 + validated.argmin(axis=1))
    print(f"{name:15} training loss {losses[:, 0].mean():.2f} to {losses[:, -1].mean():.2f}, chosen steps {steps}")

# %% [markdown]
# The losses are means over the three seeds. DREAM's validation loss falls to the end. MEAT's has an early minimum and
# does not fall further, because its discriminator learns as well.
#
# ## The leak on text that was not trained on
#
# Both kinds of embedding of the test paragraphs are searched for translations, in two ways:
#
# - **with English**: an English paragraph among 25 in another language, and the reverse (accuracy), as in ORACLE's
#   paper;
# - **in the pool**: all languages together; the score is the mean average precision (mAP) of the seven translations.
#
# By meaning, a high score is good. By language, it is the leak, and should be at chance. A third measure looks at the
# opposite leak: can a linear classifier read the language from the *meaning* embedding?


# %%
def with_english(x: np.ndarray) -> float:
    """Returns the mean accuracy between English and each other language, both ways; x is [language, paragraph, dim]."""
    found = []
    for other in x[1:]:
        for queries, candidates in ((x[0], other), (other, x[0])):
            found.append(np.asarray(lj.retrieval.nearest(queries, candidates)[1])[:, 0] == np.arange(len(other)))
    return float(np.mean(found))


def in_pool(x: np.ndarray) -> float:
    """Returns the mean average precision of translations among all languages."""
    many, n, dim = x.shape
    pool = x.reshape(-1, dim)
    relevant = [[m * n + row for m in range(many) if m != own] for own in range(many) for row in range(n)]
    ranks = lj.retrieval.candidate_ranks(pool, pool, np.array(relevant), left_out=np.arange(len(pool)))
    return float((np.arange(1, many) / (1 + np.sort(ranks, axis=1))).mean())


def language_accuracy(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the accuracy on y of a linear classifier of the language that was trained on x."""
    labels = np.repeat(np.arange(len(languages)), 25)
    classifier = make_pipeline(Normalizer(), LogisticRegression(C=10, max_iter=300))
    return classifier.fit(x.reshape(len(labels), -1), labels).score(y.reshape(len(labels), -1), labels)


def chosen(name: str, seed: int) -> Heads:
    """Returns the heads of the round with the lowest validation loss."""
    heads, _, validated = runs[name]
    return jax.tree.map(lambda x: x[seed, validated[seed].argmin()], heads)


def head_outputs(heads: Heads, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the meaning and the language embeddings of x, [language, paragraph, dim]."""
    return tuple(np.asarray(part).reshape(x.shape) for part in D.apply_heads(heads, x.reshape(-1, x.shape[-1])))


def shown_as(values: list | np.ndarray) -> list[str]:
    """Returns the mean of each column, and its standard deviation over the rows."""
    return [f"{m:.2f} ± {s:.2f}" for m, s in zip(np.mean(values, axis=0), np.std(values, axis=0, ddof=1), strict=True)]


MEASURES = [f"{part}, {way}" for part in ("meaning", "language") for way in ("with English", "in the pool")]
MEASURES.append("language read from meaning")
scores = {}
for name in OBJECTIVES:
    for seed in range(SEEDS):
        meaning, language = head_outputs(chosen(name, seed), test)
        trained_meaning, _ = head_outputs(chosen(name, seed), fit)
        found = [measure(part) for part in (meaning, language) for measure in (with_english, in_pool)]
        scores.setdefault(name, []).append([*found, language_accuracy(trained_meaning, meaning)])
scores = {name: np.array(values) for name, values in scores.items()}

# Without training: the embeddings themselves, with the language subspace removed, and noise for chance.
lsar = lj.transforms.fit_lsar(dict(zip(languages, fit, strict=True)))
removed_fit, removed = (np.asarray(lsar(x.reshape(-1, encoder.dim))).reshape(x.shape) for x in (fit, test))
noise = np.random.default_rng(0).normal(size=test.shape).astype(np.float32)
plain = {
    "original embeddings": (with_english(test), in_pool(test), language_accuracy(fit, test)),
    "LSAR, not trained": (with_english(removed), in_pool(removed), language_accuracy(removed_fit, removed)),
}
chance = {"with English": 1 / 25, "in the pool": in_pool(noise)}

print(f"{'':20} {'meaning':>27} {'language: the leak':>27} {'language read':>13}")
print(f"{'':20} {'with English  in the pool':>27} {'with English  in the pool':>27} {'from meaning':>13}")
for name, (english, pool, read) in plain.items():
    print(f"{name:20} {english:14.2f} {pool:12.2f} {'':27} {read:13.2f}")
for name, values in scores.items():
    print("{:20} {:>14} {:>12} {:>14} {:>12} {:>13}".format(name, *shown_as(values)))
print(f"{'chance':20} {chance['with English']:14.2f} {chance['in the pool']:12.2f}", end=" ")
print(f"{chance['with English']:14.2f} {chance['in the pool']:12.2f} {1 / len(languages):13.2f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for axis, way, untrained in zip(axes, chance, plain["original embeddings"], strict=False):
    for offset, part, color, hatch in ((-0.2, "meaning", "#0072b2", None), (0.2, "language", "#e69f00", "///")):
        values = np.array([scores[name][:, MEASURES.index(f"{part}, {way}")] for name in OBJECTIVES])
        where = np.arange(len(OBJECTIVES)) + offset
        spread = values.std(axis=1, ddof=1)
        bar = {"color": color, "hatch": hatch, "ec": "black", "capsize": 3, "label": f"by {part}"}
        axis.bar(where, values.mean(axis=1), 0.38, yerr=spread, **bar)
    axis.axhline(chance[way], color="black", ls=":", label="chance")
    axis.axhline(untrained, color="0.4", ls="--", label="original embeddings")
    axis.set_xticks(range(len(OBJECTIVES)), [name.replace(" + ", "\n+ ") for name in OBJECTIVES])
    axis.grid(axis="x", visible=False)
axes[0].set(ylabel="retrieval with English, accuracy", ylim=(0, 1.05))
axes[1].set(ylabel="retrieval in the pool, mAP")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
plt.show()

mean = {name: dict(zip(MEASURES, values.mean(axis=0), strict=True)) for name, values in scores.items()}
leak = {name: values[:, MEASURES.index("language, with English")] for name, values in scores.items()}
assert (leak["MEAT"] > 2 * chance["with English"]).all()  # MEAT leaks in every seed,
assert (leak["MEAT + ORACLE"] < leak["MEAT"] / 2).all()  # and ORACLE reduces its leak in every seed
assert (leak["DREAM"] < leak["MEAT"] / 2).all()

# %% [markdown]
# The error bars are standard deviations over three seeds. MEAT leaks: its language embeddings find the translation
# much more often than chance. DREAM, which classifies the language embeddings and pulls those of a language together,
# leaks little, so that there is little for ORACLE to reduce. In MEAT, ORACLE removes most of the leak between English
# and the other languages, in every seed. This is the effect that the paper reports.
#
# In the pool of all languages, the picture is another, as the table shows:

# %%
assert (scores["MEAT + ORACLE"][:, 3] > scores["MEAT"][:, 3]).all()
assert mean["MEAT + ORACLE"]["language, in the pool"] > 2 * chance["in the pool"]

# %% [markdown]
# Among the other languages, MEAT's leak *grows* with ORACLE. Every pair of a batch has English on one side, so the
# clustering term pulls the language embeddings of all translations together, whatever their language is. What is left
# to tell them apart is more often the meaning. So measure the leak between all languages, not only with English.
# `Objective(clustering="same_language")` pulls together only pairs with the same target language.
#
# The last column of the table shows the opposite leak. A linear classifier still reads the language from the meaning
# embeddings, of text that it was not trained on, better than chance by far. After LSAR, a classifier that is trained
# in the same way comes close to chance:

# %%
assert min(mean[name]["language read from meaning"] for name in OBJECTIVES) > 3 / len(languages)
assert plain["LSAR, not trained"][2] < 3 / len(languages)

# %% [markdown]
# ## Both heads in a picture
#
# t-SNE of the test paragraphs in five languages, seed 0. Each code is one paragraph in that language. Shades stand
# for the languages.

# %%
shown = ["ar", "en", "hi", "sw", "zh"]
rows = [languages.index(code) for code in shown]
shades = dict(zip(shown, plt.get_cmap("viridis")(np.linspace(0, 0.85, len(shown))), strict=True))
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
pictures = [(name, part) for name in ("MEAT", "MEAT + ORACLE") for part in ("meaning", "language")]
for axis, (name, part) in zip(axes, pictures, strict=True):
    x = dict(zip(("meaning", "language"), head_outputs(chosen(name, 0), test[rows]), strict=True))[part]
    tsne = TSNE(metric="cosine", init="random", perplexity=10, method="exact", max_iter=500, random_state=0)
    places = tsne.fit_transform(x.reshape(-1, encoder.dim))
    for (across, up), code in zip(places, np.repeat(shown, 25), strict=True):
        axis.text(across, up, code, color=shades[code], fontsize=6.5, ha="center", va="center")
    low, high = places.min(axis=0) - 2, places.max(axis=0) + 2
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[], xlabel=f"{name}, {part}")
plt.show()

# %% [markdown]
# The meaning heads mix the languages. The language head of MEAT separates them all. With ORACLE, English is far from
# the rest, and the other languages have moved towards each other, as the clustering term demands. This is why their
# leak grew.
#
# ## Does the result depend on the learning rate?
#
# MEAT is trained once more at a higher rate. The cosine in the last column is that of the meaning and the language
# embedding of a test paragraph.

# %%
HIGHER = 1e-3
for name in ("MEAT", "MEAT + ORACLE"):
    runs[f"{name}, {HIGHER:g}"] = run(OBJECTIVES[name], HIGHER)

rated = {}
print(f"{'':15} {'rate':>6} {'validation loss':>16} {'leak, with English':>19} {'cosine of the parts':>20}")
for name in ("MEAT", "MEAT + ORACLE"):
    for key, rate in ((name, RATE), (f"{name}, {HIGHER:g}", HIGHER)):
        values = []
        for seed in range(SEEDS):
            parts_of_test = head_outputs(chosen(key, seed), test)
            meaning, language = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in parts_of_test)
            lowest = runs[key][2][seed].min()
            values.append((lowest, with_english(language), (meaning * language).sum(axis=-1).mean()))
        rated[name, rate] = np.array(values)
        print("{:15} {:6g} {:>16} {:>19} {:>20}".format(name, rate, *shown_as(values)))

validated = [rated["MEAT + ORACLE", rate][:, 0] for rate in (RATE, HIGHER)]
assert validated[0].max() < validated[1].min()  # with ORACLE, the validation loss prefers the lower rate
assert rated["MEAT + ORACLE", HIGHER][:, 1].mean() > rated["MEAT", HIGHER][:, 1].mean()
assert (rated["MEAT + ORACLE", HIGHER][:, 2] < -0.5).all()

# %% [markdown]
# It does, and much: at the higher rate, MEAT with ORACLE leaks *more* than MEAT. The cosine shows how. Equation 6
# separates the parts by `max(0, cos)`, which opposite vectors satisfy as well as orthogonal ones do. At the higher
# rate, the language embedding turns into nearly the negative of the meaning embedding, and so finds translations.
# With ORACLE, the validation loss prefers the lower rate in every seed; the results above are those of that rate. So
# choose the rate by the validation loss, and look at the cosine. `Objective(separation="alone")` uses the absolute
# cosine, as other objectives in ORACLE's code do.
#
# ## Use a head
#
# A trained head becomes a `Transform` like any other: it can be saved, chained and applied by the encoder itself.

# %%
heads = chosen("DREAM + ORACLE", 0)
counts = dict.fromkeys(languages, len(training))
name = OBJECTIVES["DREAM + ORACLE"].name
head = lj.transforms.head_transform(heads.meaning, "meaning", name, counts, source=encoder.spec, seed=0)
agnostic = encoder.with_transform(head)
print(agnostic)

x = agnostic.encode(["The court is public.", "Das Gericht tagt öffentlich.", "Das Kind geht zur Schule."])
print(np.asarray(lj.retrieval.similarity(x[:1], x[1:])).round(2))

# %% [markdown]
# ## What this means, and where it stops
#
# - Semantic leakage is easy to measure: search with the language embedding. A score above chance is a leak.
# - ORACLE reduces the leak of MEAT between English and the other languages, but at another learning rate it increases
#   it.
# - It is no clean split: meaning remains in the language embedding if all languages are compared, and the language
#   can be read from the meaning embedding.
# - Training is not always worth it. In the pool, no head here retrieves clearly better by meaning than LSAR, which
#   needs neither pairs nor training.

# %%
assert max(mean[name]["meaning, in the pool"] for name in OBJECTIVES) < plain["LSAR, not trained"][1] + 0.03

# %% [markdown]
# Twenty paragraphs are very little text: a head has 384 x 384 weights, and it sees only twenty meanings in ten
# languages. Only the two rates shown were compared; for MEAT alone, the validation loss of both is nearly the same.
# The encoder is multilingual-e5-small with 4-bit weights, read at layer 8. The papers train on hundreds of thousands
# of pairs. `python -m train.disentangle` and `python -m train.ablations` in the repository do this on text of your
# own, with checkpoints and early stopping, and `python -m eval leakage` measures the result.
