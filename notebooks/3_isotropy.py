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
# # Does a more isotropic space retrieve better?
#
# Sentence embeddings of pretrained encoders point in similar directions: two random sentences have a high cosine.
# Such a space is called *anisotropic*, and a few large dimensions often cause it (Hämmerl et al. 2023; Rajaee and
# Pilehvar 2021). This notebook asks three questions about a multilingual encoder:
#
# 1. At which layers is its space anisotropic?
# 2. How much of this is due to single dimensions?
# 3. If the space is made isotropic, do sentences find their translations more easily?
#
# Install with `pip install -e '.[notebooks]'` in a checkout. The notebook takes a minute or so on two CPU cores.
# The encoder and the text come with the packages; nothing is downloaded.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE

import lsar_jax as lj

plt.rcParams.update({"figure.facecolor": "white", "figure.dpi": 90, "axes.grid": True, "grid.alpha": 0.3})
BLUE, ORANGE, GREEN, BLACK = "#0072b2", "#e69f00", "#009e73", "#000000"  # told apart by colour-blind readers

# %% [markdown]
# ## The text and the embeddings
#
# The text is the Universal Declaration of Human Rights: 50 paragraphs, the same in every language. Transforms are
# fitted on the 25 `fit` paragraphs, and everything is measured on the 25 `test` paragraphs. One forward pass gives
# the embeddings of all layers: layer 0 is the output of the embedding layer, and layer k is that of block k.

# %%
languages = ["ar", "de", "en", "hi", "ja", "ru", "sw", "zh"]
parts = [lj.corpora.udhr(part, languages) for part in ("fit", "test")]
encoder = lj.load_encoder("bundled")
layers = range(encoder.spec.layer + 1)

sentences = [sentence for text in parts for code in languages for sentence in text[code]]
embedded = encoder.encode(sentences, layers=layers).reshape(len(layers), 2, len(languages), 25, encoder.dim)
fit, test = ([dict(zip(languages, x[part], strict=True)) for x in embedded] for part in (0, 1))  # [layer][language]

print(f"{len(sentences)} paragraphs in {len(languages)} languages, layers 0 to {layers[-1]}, {encoder.dim} dimensions")

# %% [markdown]
# ## What is measured
#
# - **Mean cosine** of two sentences, exactly and over all pairs (`lj.geometry.anisotropy_by_language`). It is 0 in a
#   space without a preferred direction.
# - **IsoScore** (Rudman et al. 2022): 1 if all directions vary alike, and near 0 if few do. It ignores the mean.
# - **Retrieval**: each test paragraph searches the paragraphs of all languages. Its translations are relevant, and
#   the score is the mean average precision (mAP). A paragraph of its own language is a wrong answer here, as in
#   LAReQA (Roy et al. 2020). The interval is a bootstrap over the 25 paragraphs.


# %%
def average_precisions(x: dict) -> np.ndarray:
    """Returns the average precision of each test paragraph as a query, [language, paragraph]."""
    n, many = 25, len(x)
    pool = np.concatenate([np.asarray(rows) for rows in x.values()])
    relevant = [[m * n + row for m in range(many) if m != own] for own in range(many) for row in range(n)]
    ranks = lj.retrieval.candidate_ranks(pool, pool, np.array(relevant), left_out=np.arange(len(pool)))
    return (np.arange(1, many) / (1 + np.sort(ranks, axis=1))).mean(axis=1).reshape(many, n)


def interval(by_paragraph: np.ndarray) -> np.ndarray:
    """Returns the 95% bootstrap interval of the mean over paragraphs."""
    rng = np.random.default_rng(0)
    means = by_paragraph[rng.integers(0, len(by_paragraph), (2000, len(by_paragraph)))].mean(axis=1)
    return np.percentile(means, [2.5, 97.5])


def measure(x: dict) -> dict:
    """Returns all measures of the embeddings of the test paragraphs by language."""
    precision = average_precisions(x).mean(axis=0)
    return {
        "cosine": lj.geometry.anisotropy_by_language(x),
        "isoscore": lj.geometry.isoscore(np.concatenate([np.asarray(rows) for rows in x.values()])),
        "map": precision.mean(),
        "interval": interval(precision),
    }


def scores(one: dict) -> str:
    """Returns the end of a row of a table: IsoScore, mAP and its interval."""
    low, high = one["interval"]
    return f"{one['isoscore']:8.3f}  {one['map']:.2f}  {low:.2f} to {high:.2f}"


# %% [markdown]
# ## 1. Layer by layer

# %%
by_layer = [measure(test[layer]) for layer in layers]

print("layer  within a language  across languages  IsoScore   mAP  95% interval")
for layer, one in zip(layers, by_layer, strict=True):
    print(f"{layer:5}  {one['cosine'].within:17.2f}  {one['cosine'].across:16.2f}  {scores(one)}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
left.plot(layers, [one["cosine"].within for one in by_layer], "o-", color=BLUE, label="within a language")
left.plot(layers, [one["cosine"].across for one in by_layer], "s--", color=ORANGE, label="across languages")
left.set(xlabel="layer", ylabel="mean cosine of two paragraphs", ylim=(0, 1))
left.legend()
right.plot(layers, [one["map"] for one in by_layer], "^-", color=BLACK, label="mAP")
right.fill_between(layers, *np.transpose([one["interval"] for one in by_layer]), color=BLACK, alpha=0.15, lw=0)
right.plot(layers, [one["isoscore"] for one in by_layer], "v:", color=GREEN, label="IsoScore")
right.set(xlabel="layer", ylabel="mAP, IsoScore", ylim=(0, 1))
right.legend(loc="upper left")
plt.show()

assert all(one["cosine"].within > 0.7 for one in by_layer)  # anisotropic at every layer

# %% [markdown]
# Two paragraphs of one language have a high cosine at every layer. Across languages the cosine starts low and rises
# with the layers, and so does retrieval: what separates the languages shrinks, although the space becomes *more*
# anisotropic on the way. The IsoScore is low throughout. Already here, isotropy and retrieval do not move together.
#
# ## 2. Outlier dimensions
#
# A cosine is a sum over dimensions, so each dimension has its own share in the mean cosine. `expected_contributions`
# is the exact mean over all pairs. The papers draw random pairs instead, as `pair_contributions` does. An outlier
# dimension is one whose mean is more than three standard deviations away from that of the other dimensions.

# %%
LAYER = 8
pool = np.concatenate(list(test[LAYER].values()))
contributions = np.asarray(lj.geometry.expected_contributions(pool))
drawn = lj.geometry.pair_contributions(pool, pool, lj.geometry.random_pairs(len(pool), len(pool), 10_000, seed=0))
assert np.allclose(contributions, drawn, atol=0.01)  # 10,000 random pairs come close to the exact value

mean = np.mean([rows.mean(axis=0) for rows in fit[LAYER].values()], axis=0)
outliers = np.flatnonzero(lj.geometry.outlier_dimensions(mean, sigma=3.0))
print(f"layer {LAYER}: mean cosine {contributions.sum():.2f} over {encoder.dim} dimensions\n")
print("outlier dimension  mean value  share of the mean cosine")
for dimension in outliers[np.argsort(-contributions[outliers])]:
    print(f"{dimension:17}  {mean[dimension]:10.2f}  {contributions[dimension] / contributions.sum():24.0%}")
print(f"together {contributions[outliers].sum() / contributions.sum():47.0%}")

# %%
# Distances of the English paragraphs to their nearest, second nearest, ... German paragraph.
english, german = test[LAYER]["en"], test[LAYER]["de"]
zero = lj.transforms.zero_dimensions(outliers.tolist(), encoder.dim)
kept = 2 - 2 * lj.retrieval.nearest(english, german, 25)[0].mean(axis=0)
dropped = 2 - 2 * lj.retrieval.nearest(zero(english), zero(german), 25)[0].mean(axis=0)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
left.vlines(np.arange(encoder.dim), 0, contributions, color=BLACK, lw=0.8)
left.plot(outliers, contributions[outliers], "D", color=ORANGE, mec=BLACK, label="outlier dimension")
left.set(xlabel="dimension", ylabel="contribution to the mean cosine")
left.legend()
right.plot(np.arange(1, 26), kept, "o-", color=BLUE, ms=4, label="all dimensions")
right.plot(np.arange(1, 26), dropped, "s--", color=ORANGE, ms=4, label="outliers set to zero")
right.set(xlabel="rank of the German paragraph", ylabel="mean distance, 2 - 2 cos", ylim=(0, None))
right.legend()
plt.show()

assert contributions[outliers].sum() > contributions.sum() / 2

# %% [markdown]
# A handful of the dimensions makes up more than half of the mean cosine (left). Without them, all distances grow
# (right). The curve keeps its shape, though: distances grow at all ranks. Whether the *right* paragraph is nearest is
# another question.
#
# ## 3. Isotropy against retrieval
#
# All transforms are fitted on the `fit` paragraphs and applied to the `test` paragraphs:
#
# | transform | what it does | needs the language of a new sentence |
# | --- | --- | --- |
# | outliers to zero | sets the outlier dimensions to zero | no |
# | shared mean | subtracts the mean over languages | no |
# | shared whitening | gives all directions the same variance | no |
# | LSAR | removes the subspace that the language means span | no |
# | language means | subtracts the mean of each language | yes |
# | whitening by language | whitens each language | yes |
# | CBIE | subtracts the mean and removes the top four principal components of each language | yes |
#
# CBIE normally clusters each language first and removes twelve components; with 25 paragraphs, one cluster and four
# components are used. Whitening adds `eps`, a share of the mean variance, to every direction. This matters because 25
# paragraphs do not determine 384 variances.

# %%
T = lj.transforms
METHODS = {  # name: (fit, marker)
    "original": (None, "o"),
    "outliers to zero": (T.fit_outliers, "D"),
    "shared mean": (lambda x: T.fit_center(x, per_language=False), "s"),
    "shared whitening": (lambda x: T.fit_whitening(x, eps=0.1), "P"),
    "LSAR": (T.fit_lsar, "*"),
    "language means": (T.fit_center, "^"),
    "whitening by language": (lambda x: T.fit_whitening(x, eps=1.0, per_language=True), "X"),
    "CBIE": (lambda x: T.fit_cbie(x, components=4), "v"),
}


def apply(transform: lj.Transform | None, x: dict) -> dict:
    """Returns the transformed embeddings by language."""
    if transform is None:
        return x
    return {code: transform(rows, code if transform.languages else None) for code, rows in x.items()}


results = {}
for layer in (LAYER, layers[-1]):
    print(f"layer {layer:<17} mean cosine  IsoScore   mAP  95% interval")
    for name, (fitting, _) in METHODS.items():
        transform = fitting and fitting(fit[layer])
        one = results[layer, name] = measure(apply(transform, test[layer]))
        print(f"{name:23} {one['cosine'].overall:11.2f}  {scores(one)}")
    print()

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(METHODS)))
for (name, (_, marker)), shade in zip(METHODS.items(), shades, strict=True):
    one = results[LAYER, name]
    spread = np.abs(one["interval"] - one["map"])[:, None]
    for axis, value in zip(axes, (one["cosine"].overall, one["isoscore"]), strict=True):
        axis.errorbar(value, one["map"], spread, color="0.6", lw=1, zorder=1)
        axis.scatter(value, one["map"], s=90, marker=marker, color=shade, ec=BLACK, label=name, zorder=2)
axes[0].set(xlabel="mean cosine (isotropic: 0)", ylabel="mAP", ylim=(0, 1))
axes[1].set(xlabel="IsoScore (isotropic: 1)")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
plt.show()

before, after = results[LAYER, "original"], {name: results[LAYER, name] for name in METHODS}
# Isotropic by cosine, and yet retrieval hardly changes:
assert abs(after["shared mean"]["cosine"].overall) < 0.1 < before["cosine"].overall
assert abs(after["shared mean"]["map"] - before["map"]) < 0.1
# More anisotropic by both measures, and yet retrieval is much better:
assert after["LSAR"]["cosine"].overall > before["cosine"].overall
assert after["LSAR"]["isoscore"] < before["isoscore"]
assert after["LSAR"]["map"] > 2 * before["map"]

# %% [markdown]
# The mean cosine (left) says nothing about retrieval. Subtracting one mean from all sentences brings it to nearly 0,
# and retrieval stays where it was. Zeroing the outlier dimensions lowers it, to no effect. LSAR *raises* it, because
# the languages become more alike, and retrieval is more than twice as good. What the successful methods have in
# common is that they make the means of the languages equal.
#
# The IsoScore (right) is higher after whitening and CBIE, which also retrieve well. Is that because they are
# isotropic? The amount of whitening can be varied: from a large `eps`, which is close to subtracting the mean alone,
# to a small one, which comes closest to equal variances on the text that it is fitted on.

# %%
amounts = [100.0, 10.0, 1.0, 0.1, 0.01]
curves = {}
for name, per_language in (("shared", False), ("by language", True)):
    fits = [T.fit_whitening(fit[LAYER], eps=eps, per_language=per_language) for eps in amounts]
    curves[name] = [measure(apply(transform, test[LAYER])) for transform in fits]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained", sharex=True)
for (name, curve), style, color in zip(curves.items(), ("o-", "s--"), (BLUE, ORANGE), strict=True):
    axes[0].plot(amounts, [one["isoscore"] for one in curve], style, color=color, label=f"whitening, {name}")
    axes[1].plot(amounts, [one["map"] for one in curve], style, color=color, label=f"whitening, {name}")
axes[1].axhline(after["language means"]["map"], color=BLACK, ls=":", label="language means")
axes[0].set(xscale="log", xlabel="eps (smaller: more whitening)", ylabel="IsoScore", ylim=(0, None))
axes[1].set(xlabel="eps (smaller: more whitening)", ylabel="mAP", ylim=(0, 1))
axes[0].invert_xaxis()
axes[0].legend()
axes[1].legend(loc="lower left")
plt.show()

by_language, means = curves["by language"], after["language means"]["map"]
assert by_language[-1]["isoscore"] > by_language[0]["isoscore"]
assert by_language[-1]["map"] < min(by_language[0]["map"], means)
assert max(one["map"] for one in curves["shared"]) < means

# %% [markdown]
# By language, a large `eps` is nearly the same as subtracting the language means. From there on, more whitening
# raises the IsoScore and lowers the mAP: it amplifies directions that 25 paragraphs say little about. Shared
# whitening does help. But it starts with the languages apart, and it shrinks the directions with the largest
# variance, among them those that separate the languages. At no `eps` in the figure does it reach what the language
# means alone do.
#
# ## The same in a picture
#
# t-SNE places paragraphs with a high cosine next to each other. Each code is one paragraph in that language.

# %%
shown = ["ar", "en", "hi", "sw", "zh"]
colors = dict(zip(shown, plt.get_cmap("viridis")(np.linspace(0, 0.85, len(shown))), strict=True))
figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
for axis, name in zip(axes, ("original", "shared mean", "LSAR"), strict=True):
    fitting = METHODS[name][0]
    moved = apply(fitting and fitting(fit[LAYER]), {code: test[LAYER][code] for code in shown})
    rows = np.concatenate([np.asarray(moved[code]) for code in shown])
    places = TSNE(
        metric="cosine", init="random", perplexity=10, method="exact", max_iter=500, random_state=0
    ).fit_transform(rows)
    for (x, y), code in zip(places, np.repeat(shown, 25), strict=True):
        axis.text(x, y, code, color=colors[code], fontsize=7, ha="center", va="center")
    low, high = places.min(axis=0) - 2, places.max(axis=0) + 2
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axis.set_xlabel(f"{name}: mean cosine {results[LAYER, name]['cosine'].overall:.2f}")
plt.show()

# %% [markdown]
# In the original space, paragraphs lie near others in their language. Subtracting the shared mean, which makes the
# space isotropic by cosine, leaves it so. After LSAR, which leaves the space anisotropic, most groups are one
# paragraph in several languages.
#
# ## What this means, and where it stops
#
# - The space of this encoder is anisotropic at every layer, and a few dimensions account for most of it.
# - Isotropy as such did not help retrieval here. What helped was to remove what distinguishes the *languages*.
#   Methods that are fitted by language do this as well, and this is easily mistaken for an effect of isotropy.
# - So compare an isotropy method with subtracting the language means, not only with the original embeddings.
#
# The text is small and of one kind: 25 paragraphs of legal text to fit on, and 25 to measure on, in eight languages.
# The encoder is multilingual-e5-small with 4-bit weights. It was trained to retrieve, with a contrastive loss; in
# other encoders the outliers are different. With thousands of sentences, whitening and CBIE are better determined
# than here. `python -m eval geometry` in the repository measures the same on other text and encoders.
