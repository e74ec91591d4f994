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
# # Look at your text, then index it
#
# Six commands lead from a folder of text to a page on which its sentences can be looked at, to a transform, and to a
# faiss index. They run after `pip install -e '.[notebooks]'`, and take about a minute on two cores.
#
# For the example, the folder has the Universal Declaration of Human Rights in four languages, a file for each, with one
# paragraph per line. Line i is the same in all files here; your files need not be translations of each other.

# %%
# !rm -rf results/look

# %%
from pathlib import Path

import lsar_jax as lj

folder = Path("results/look")
(folder / "text").mkdir(parents=True)
for code, paragraphs in lj.corpora.udhr("all", ["de", "en", "sw", "th"]).items():
    (folder / "text" / f"{code}.txt").write_text("\n".join(paragraphs) + "\n", encoding="utf-8")

# %% [markdown]
# **1.** Encode each file, once for all that follows. Embeddings of another model, such as `vectors/de.npy`, do as well.

# %% language="bash"
# cd results/look
# lsar-jax encode text vectors --encoder bundled --layer 8 > encode.log 2>&1
# ls vectors

# %% [markdown]
# **2.** The page. Open `results/look/explorer.html` in a browser: hover over a point to read its sentence, click it to
# see its ten nearest sentences before and after, and move the slider to remove one direction of language after another.
# In a notebook, `lj.explore` shows the same page below the cell.

# %% language="bash"
# cd results/look
# lsar-jax explore text --vectors vectors --transforms lsar mean+lsar center leace --out explorer.html

# %% [markdown]
# **3.** The page names the command that fits what it shows. At the slider's right end, that is LSAR with all three
# directions in which the means of four languages can differ.

# %% language="bash"
# cd results/look
# lsar-jax fit lsar lsar.safetensors --rank 3 --texts vectors

# %% [markdown]
# **4.** Apply it to all vectors, those of the documents and those of the queries. Text can be given instead.

# %% language="bash"
# cd results/look
# for code in de en sw th; do
#     lsar-jax apply lsar.safetensors vectors/$code $code.npy > apply.log 2>&1
# done
# ls *.npy

# %% [markdown]
# **5.** The index, of all four languages: transform first, and divide by the length afterwards, so that inner products
# are cosines. For comparison, there is another one of the vectors as they were.

# %%
import faiss
import numpy as np

CODES = ("de", "en", "sw", "th")
after = [np.load(folder / f"{code}.npy") for code in CODES]
before = [np.asarray(lj.embeddings.open(folder / "vectors" / code)[:], np.float32) for code in CODES]


def indexed(parts):
    """The normalised vectors and an index of them."""
    vectors = np.concatenate(parts)
    faiss.normalize_L2(vectors)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return vectors, index


# %% [markdown]
# **6.** Search with each paragraph. Its three translations should come first, and not other paragraphs of its language.

# %%
import matplotlib.pyplot as plt

lines = len(after[0])
language, line = np.repeat(np.arange(len(CODES)), lines), np.tile(np.arange(lines), len(CODES))
shares = {}
for name, parts in (("before", before), ("after", after)):
    vectors, index = indexed(parts)
    hits = index.search(vectors, 4)[1]
    # The first hit of all but copies is the paragraph itself.
    hits = np.array([[hit for hit in row if hit != query][:3] for query, row in enumerate(hits)])
    own = 100 * (language[hits] == language[:, None]).mean()
    found = 100 * (line[hits] == line[:, None]).mean()
    shares[name] = own, found
    print(f"{name}: {own:.0f}% of the three best hits are in the query's language, {found:.0f}% are translations")

figure, axes = plt.subplots(figsize=(5, 2.4), layout="constrained")
for offset, (name, values) in zip((-0.2, 0.2), shares.items(), strict=True):
    axes.bar_label(axes.bar(np.arange(2) + offset, values, 0.38, label=name), fmt="%.0f%%")
axes.set_xticks(range(2), ["in the query's language", "translations"])
axes.set(ylabel="% of three best hits", ylim=(0, 112))
axes.legend(loc="upper left")
plt.show()

# %% [markdown]
# The transform was fitted on the text that is searched here, which flatters it. `lsar-jax report` measures
# layers, methods and ranks on parts that it was not fitted on: see the notebook before this one.
