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
# # Search and mine across languages
#
# Two jobs with one encoder. First, a search engine: documents in 15 languages in one pool, a question in any of them,
# and results that do not depend on the language of the question. Then mining: two collections of which a part are
# translations of each other, and nobody knows which.
#
# Install with `pip install -e '.[notebooks]'` in a checkout. It takes less than a minute on two cores.
# The text is the Universal Declaration of Human Rights, which comes with the library.

# %%
import matplotlib.pyplot as plt
import numpy as np

import lsar_jax as lj

LANGUAGES = "ar de el en es fi fr hi ja ru sw th tr vi zh".split()
encoder = lj.load_encoder("bundled")  # the last layer, which is best for search with this encoder
fit_text, test_text = (lj.corpora.udhr(part, LANGUAGES) for part in ("fit", "test"))

# %% [markdown]
# ## Search
#
# The transform is fitted on one half of the text. As languages are known here, Centered would do; the mean over
# languages and then LSAR is a map that needs no language, so a question may be in any.

# %%
fit = {code: encoder.encode(text) for code, text in fit_text.items()}
shared = lj.transforms.fit_center(fit, per_language=False, source=encoder.spec).then(
    lj.transforms.fit_lsar(fit, source=encoder.spec)
)
search = encoder.with_transform(shared)

documents = [(code, text) for code, several in test_text.items() for text in several]
plain_index = encoder.encode([text for _, text in documents])
index = shared(plain_index)


def find(question, k=5):
    """Prints the languages and beginnings of the first k documents, without and with the transform."""
    for name, one, vectors in (("original", encoder, plain_index), ("without language", search, index)):
        scores, ids = lj.retrieval.nearest(one.encode([question]), vectors, k=k)
        print(name)
        for score, i in zip(scores[0], ids[0], strict=True):
            code, text = documents[int(i)]
            print(f"  {score:.2f} {code}  {text[:70]}")


find("Everyone may change their religion.")
print()
find("Jeder darf seine Religion wechseln.")

# %% [markdown]
# Is one language preferred? Each test paragraph is a question whose answers are its translations. Without preference,
# the ten nearest documents are of all languages alike.

# %%
language = np.repeat(np.arange(len(LANGUAGES)), len(test_text["en"]))
paragraph = np.tile(np.arange(len(test_text["en"])), len(LANGUAGES))
translations = paragraph[:, None] + len(test_text["en"]) * np.arange(len(LANGUAGES))
itself = np.arange(len(documents))


def scores_of(vectors):
    """Returns the recall of translations in the first 14 and the share of the question's language in the first ten."""
    ranks = lj.retrieval.candidate_ranks(vectors, vectors, translations, left_out=itself)
    others = ranks >= 0
    recall = ((ranks < len(LANGUAGES) - 1) & others).sum(axis=1) / others.sum(axis=1)
    ids = np.asarray(lj.retrieval.nearest(vectors, vectors, k=11)[1])[:, 1:]
    own = lj.preference.top_k_share(ids, language, language)
    return recall, own.shares


before, after = scores_of(plain_index), scores_of(index)
x = np.arange(len(LANGUAGES))
figure, axes = plt.subplots(2, 1, figsize=(7, 4.8), sharex=True, facecolor="white", layout="constrained")
for axis, number, label in zip(
    axes, (0, 1), ("translations among\nthe first 14, %", "own language among\nthe first 10, %"), strict=True
):
    for values, offset, colour, hatch, name in (
        (before, -0.2, "#e69f00", "//", "original"),
        (after, 0.2, "#0072b2", "", "without language"),
    ):
        means = [100 * values[number][language == i].mean() for i in range(len(LANGUAGES))]
        axis.bar(x + offset, means, 0.38, color=colour, hatch=hatch, edgecolor="white", label=name)
    axis.set_ylabel(label)
    axis.spines[["top", "right"]].set_visible(False)
axes[1].set_xticks(x, LANGUAGES)
axes[1].set_xlabel("language of the question")
axes[0].legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
plt.show()
for name, (recall, _) in {"original": before, "without language": after}.items():
    print(f"{name:18} translations among the first 14: {100 * recall.mean():.1f}%")

assert after[0].mean() > before[0].mean()
assert after[1].mean() < before[1].mean()

# %% [markdown]
# ## Mining
#
# Two collections of 18 paragraphs, each in a language drawn at random: paragraphs 0 to 17 of the test half in one,
# and 7 to 24 in the other. Eleven are in both, in whatever languages. Mining finds the pairs by their margin (Artetxe
# and Schwenk 2019): how much closer two sentences are to each other than to their neighbours. Thirty draws show how
# sure the result is.

# %%
GOLD = 11
of_paragraph = {
    one: vectors.reshape(len(LANGUAGES), -1, encoder.dim)
    for one, vectors in (("original", plain_index), ("without language", index))
}
rng = np.random.default_rng(0)
f1 = {name: [] for name in of_paragraph}
scored = {name: [] for name in of_paragraph}
for _ in range(30):
    first, second = (rng.integers(len(LANGUAGES), size=18) for _ in range(2))
    for name, vectors in of_paragraph.items():
        left, right = vectors[first, np.arange(18)], vectors[second, np.arange(7, 25)]
        pairs = lj.mining.mine(left, right, k=4, margin="ratio")
        correct = pairs.source == pairs.target + 7
        f1[name].append(lj.mining.best_threshold(pairs.score, correct, gold=GOLD).f1)
        scored[name] += [(float(score), bool(ok)) for score, ok in zip(pairs.score, correct, strict=True)]

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), facecolor="white", layout="constrained")
for low, high in zip(*f1.values(), strict=True):
    axes[0].plot([0, 1], [low, high], "o-", color="0.55", ms=4, lw=0.8)
axes[0].plot(
    [0, 1], [np.mean(values) for values in f1.values()], "D-", color="#d55e00", ms=8, lw=2, label="mean of 30 draws"
)
axes[0].set_xticks([0, 1], list(f1))
axes[0].set_xlim(-0.3, 1.3)
axes[0].set_ylabel("best F1 of mining, %")
axes[0].legend(frameon=False)
for (name, several), colour, style in zip(scored.items(), ("#e69f00", "#0072b2"), ("--", "-"), strict=True):
    order = sorted(several, reverse=True)
    found = np.cumsum([ok for _, ok in order])
    axes[1].plot(100 * found / (30 * GOLD), 100 * found / np.arange(1, len(order) + 1), style, color=colour, label=name)
axes[1].set_xlabel("recall, %, with one threshold for all draws")
axes[1].set_ylabel("precision, %")
axes[1].legend(frameon=False)
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
for name, values in f1.items():
    print(f"{name:18} F1 {np.mean(values):.1f}, standard deviation over draws {np.std(values, ddof=1):.1f}")

assert np.mean(f1["without language"]) > np.mean(f1["original"])

# %% [markdown]
# The threshold was tuned on the pairs themselves, separately in each draw on the left; the curve on the right has one
# threshold for all. For real use tune it on text whose pairs are known, as BUCC's protocol does.
#
# **Where this stops.** These collections are tiny, mix languages as few corpora do, and a paragraph of the
# declaration has no near copies among the others. On program messages with many near copies, between two known
# languages, mining with this encoder's last layer gained next to nothing from any transform, while search did (see
# the documentation). Neighbours are found in chunks on the device, so the same calls work on collections of millions.
