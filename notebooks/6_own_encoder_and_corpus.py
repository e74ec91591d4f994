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
# # Bring your own encoder and corpus
#
# You have a checkpoint in a folder, text in files, perhaps vectors of an encoder that this library does not know, and
# want a transform to use elsewhere. This notebook goes the whole way: read a corpus once, fit methods from what was
# kept, compare them, add a language later, tell the language of unlabelled text, and hand the result to faiss,
# numpy and sentence-transformers.
#
# Install with `pip install -e '.[notebooks]'` in a checkout. It takes less than a minute on two cores.

# %%
import tempfile
from pathlib import Path

import faiss
import matplotlib.pyplot as plt
import numpy as np

import lsar_jax as lj

work = Path(tempfile.mkdtemp())

# %% [markdown]
# ## An encoder in a folder
#
# `load_encoder` takes a preset, a Hub id or a folder with `config.json`, `model.safetensors` and a tokenizer, as
# transformers and sentence-transformers write it. To have such a folder here, the bundled encoder writes one; put the
# path of your own in its place. Weights that are pickled are converted once, by `lsar-jax convert`.

# %%
lj.load_encoder("bundled", layer=6).to_sentence_transformers(work / "checkpoint")
print(*sorted(path.name for path in (work / "checkpoint").iterdir()), sep="\n")

encoder = lj.load_encoder(work / "checkpoint")
print(encoder)

# %% [markdown]
# ## A corpus in files
#
# One file per language, one sentence per line; the languages need not say the same. Here, the first half of the
# Universal Declaration of Human Rights stands for it, and the other half, which is aligned, is kept to compare the
# methods.

# %%
LANGUAGES = "de el en es fi hi ja ru sw th tr zh".split()
(work / "corpus").mkdir()
for code, paragraphs in lj.corpora.udhr("fit", LANGUAGES).items():
    (work / "corpus" / f"{code}.txt").write_text("\n".join(paragraphs) + "\n", encoding="utf-8")

corpus = lj.corpora.text_folder(work / "corpus")
print({code: len(sentences) for code, sentences in corpus.items()})

# %% [markdown]
# ## Read it once
#
# Most methods need only the count, the mean and the second moment of each language. `moments` streams the text, of
# any length, and keeps no embedding. The file is enough to fit those methods, with any rank and any of the languages,
# later.

# %%
moments = {
    code: encoder.moments(lj.corpora.stream_lines(work / "corpus" / f"{code}.txt"), second_moment=True)
    for code in corpus
}
lj.save_moments(work / "moments.safetensors", moments, source=encoder.spec)

moments, source = lj.load_moments(work / "moments.safetensors")
print(f"{(work / 'moments.safetensors').stat().st_size / 1e6:.1f} MB, of {source}")

# %%
fits = lj.transforms
mean = fits.fit_center(moments, per_language=False, source=source)
methods = {
    "Centered": fits.fit_center(moments, source=source),
    "LIR, 1 component": fits.fit_lir(moments, source=source),
    "LSAR, rank 6": fits.fit_lsar(moments, 6, source=source),
    "LSAR, rank 11": fits.fit_lsar(moments, source=source),
    "mean, then LSAR": mean.then(fits.fit_lsar(moments, source=source)),
    "LEACE": fits.fit_leace(moments, source=source),
    "whitening": fits.fit_whitening(moments, source=source),
    "zeroed outliers": fits.fit_outliers(moments, source=source),
}

# %% [markdown]
# ## Compare them
#
# Each held-out paragraph searches the paragraphs of all other languages for its translations, and each language
# searches English.

# %%
test = {code: encoder.encode(text) for code, text in lj.corpora.udhr("test", LANGUAGES).items()}
lines = len(test["en"])
line = np.tile(np.arange(lines), len(test))


def precision(x):
    """Returns the mean average precision of every paragraph as a query for its translations, in percent."""
    pool = np.concatenate(list(x.values()))
    translations = line[:, None] + lines * np.arange(len(x))
    ranks = lj.retrieval.candidate_ranks(pool, pool, translations, left_out=np.arange(len(pool)))
    ranks = np.sort(np.where(ranks < 0, len(pool), ranks), axis=1)[:, :-1]
    return 100 * (np.arange(1, ranks.shape[1] + 1) / (ranks + 1)).mean()


def into_english(x):
    """Returns the accuracy of the nearest English paragraph, the mean over languages, in percent."""
    found = [np.asarray(lj.retrieval.nearest(x[code], x["en"], k=1)[1])[:, 0] for code in x if code != "en"]
    return 100 * np.mean([ids == np.arange(lines) for ids in found])


scores = {"original": (precision(test), into_english(test))}
for name, transform in methods.items():
    moved = {code: np.asarray(transform(x, code)) for code, x in test.items()}
    scores[name] = precision(moved), into_english(moved)

figure, axis = plt.subplots(figsize=(7, 4), facecolor="white", layout="constrained")
y = np.arange(len(scores))[::-1]
for i, (label, colour, hatch) in enumerate(
    (("mAP over all languages", "#0072b2", ""), ("accuracy into English", "#e69f00", "//"))
):
    bars = axis.barh(
        y + 0.2 - 0.4 * i,
        [s[i] for s in scores.values()],
        0.38,
        color=colour,
        hatch=hatch,
        edgecolor="white",
        label=label,
    )
    axis.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
axis.set_yticks(y, list(scores))
axis.set_xlim(0, 112)
axis.set_xlabel("%")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
plt.show()

assert max(s[0] for s in scores.values()) > scores["original"][0]

# %% [markdown]
# ## A language more
#
# A map for each language takes another language without refitting the rest. A map that all languages share depends on
# all of them, so it says no.

# %%
french = encoder.moments(lj.corpora.udhr("fit", ["fr"])["fr"], second_moment=True)
centered = methods["Centered"].with_languages(fits.fit_center({"fr": french}, source=source))
print(centered.languages)
try:
    methods["LSAR, rank 11"].with_languages(fits.fit_center({"fr": french}, source=source))
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# ## Text without labels
#
# An identifier tells the language from the embedding. Text in a language that it was not fitted on has a high
# novelty, and is called `und`.

# %%
identifier = fits.fit_identifier(moments, source=source)
print({code: round(percent) for code, percent in identifier.accuracy(test).items()})
hungarian = encoder.encode(lj.corpora.udhr("test", ["hu"])["hu"])
print(identifier(hungarian)[:10])

automatic = methods["Centered"].with_identifier(identifier)
labelled = automatic(test["sw"], "sw")
print("Swahili, told and given:", np.allclose(automatic(test["sw"], "auto"), labelled, atol=1e-5))

# %% [markdown]
# ## Hand it on
#
# A shared map can be folded into the checkpoint, so that sentence-transformers gives the transformed vectors by
# itself. For faiss (`pip install faiss-cpu`), transform first and divide by the length afterwards: then inner products
# are cosines.

# %%
best = methods["mean, then LSAR"]
best.save(work / "transform.safetensors")
agnostic = encoder.with_transform(best)
agnostic.to_sentence_transformers(work / "agnostic")

documents = agnostic.encode(lj.corpora.udhr("test", ["es"])["es"], normalize=True)
queries = agnostic.encode(lj.corpora.udhr("test", ["th"])["th"], normalize=True)
index = faiss.IndexFlatIP(encoder.dim)
index.add(documents)
similarity, ids = index.search(queries, 1)
print(f"Thai finds Spanish: {100 * np.mean(ids[:, 0] == np.arange(len(queries))):.0f}% with faiss")

# %% [markdown]
# ## Vectors without an encoder
#
# If vectors come from elsewhere, such as an API or a database, the fits take arrays. `as_affine` gives the map in
# float64.

# %%
for code, x in test.items():
    np.save(work / f"{code}.npy", x)

vectors = {code: np.load(work / f"{code}.npy") for code in test}
transform = fits.fit_lsar(vectors)
A, b = transform.as_affine()
print(A.shape, np.abs(vectors["sw"] @ A.T + b - transform(vectors["sw"])).max() < 1e-4)

# %% [markdown]
# **Where this stops.** Twenty-five paragraphs a language are few: with more text, the means and the second moments
# get surer, most of all for whitening. The order of the methods differs between encoders, layers and tasks, so
# measure on text of your own: `lsar-jax report FOLDER` compares layers and methods on
# a folder of text (notebook 7).
