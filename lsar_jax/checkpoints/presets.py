"""Named presets: the encoders of the papers, and the multilingual embedders that are in use.

A preset gives the Hub id of an encoder, its commit if one was known when the preset was written, and the layer and
pooling that a paper used. As everywhere in this library, layer 0 is the embedding output and layer k the output of
block k.

What a preset says of licence, sizes and prompts is for the reader; for ``load_encoder``, the files of the checkpoint
decide. It is from the registry of mteb 2.26.24 and from the cards of the models, none of which was loaded here.
"""

from dataclasses import dataclass

__all__ = ["PRESETS", "Preset"]

_LSAR = "Xie et al. 2022 (LSAR)"
_OUTLIERS = "Haemmerl et al. 2023"
_ORACLE = "ORACLE, after DREAM and MEAT"
_AUTHORS = "its authors"
_CONVERT = "may need conversion"


@dataclass(frozen=True)
class Preset:
    """The settings of one encoder, and what is known of it.

    Attributes:
      id: id on the Hub; empty if the encoder is not on the Hub.
      revision: commit on the Hub; None for the newest.
      layer: layer that ``encode`` returns; None for the last.
      pooling: pooling of the hidden states; None for the one in the checkpoint's ``modules.json``.
      chosen_by: source of this layer and pooling.
      note: information for users of the encoder.
      architecture: key of ``ARCHITECTURES``; ``model2vec`` is a table of tokens, without blocks.
      licence: licence of the weights, as the Hub names it; empty if none is known. Those with ``nc`` in their names
        exclude commercial use, and ``gemma`` has terms of its own.
      millions: number of parameters, in millions; 0 if it is not known.
      pipeline: what ``modules.json`` says, as in ``EncoderSpec.pooling``; empty if the encoder is published without.
      longest: maximum number of tokens; None if there is no limit.
      prompts: what its authors put before a query, and before a document if that differs; ``{task}`` stands for an
        instruction. ``encode`` adds none unless ``prompt`` or the checkpoint says so.
      unchecked: the fields that neither a file nor mteb's registry confirmed.
    """

    id: str
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    chosen_by: str = _AUTHORS
    note: str = ""
    architecture: str = ""
    licence: str = ""
    millions: int = 0
    pipeline: str = ""
    longest: int | None = 512
    prompts: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


_E5 = ("query: ", "passage: ")
_INSTRUCT = ("Instruct: {task}\nQuery: ", "")
_QWEN = ("Instruct: {task}\nQuery:", "")
_GEMMA = ("task: search result | query: ", "title: none | text: ")

# The presets by name.
PRESETS = {
    # Of the papers.
    "mbert": Preset(
        "google-bert/bert-base-multilingual-cased", architecture="bert", licence="apache-2.0", millions=178,
        revision="3f076fdb1ab68d5b2880cb87a0886f315b8146f8", layer=8, pooling="mean",
        chosen_by=f"{_LSAR}, {_OUTLIERS}", unchecked=("licence",),
    ),
    "mbert-uncased": Preset(
        "google-bert/bert-base-multilingual-uncased", architecture="bert", licence="apache-2.0", millions=167,
        layer=8, pooling="mean", chosen_by="same as mbert", unchecked=("licence",),
    ),
    "xlm-100": Preset(
        "FacebookAI/xlm-mlm-100-1280", architecture="xlm", licence="cc-by-nc-4.0", millions=570, layer=12,
        pooling="mean", chosen_by=f"{_LSAR}, code; its text calls it layer 8",
        note="words are split by language, so pass language=; LSAR lower-cased its text; may need conversion",
        unchecked=("licence", "millions"),
    ),
    "xlm-r-base": Preset(
        "FacebookAI/xlm-roberta-base", architecture="xlm-roberta", licence="mit", millions=278,
        revision="e73636d4f797dec63c3081bb6ed5c7b0bb3f2089", layer=8, pooling="mean", chosen_by=_OUTLIERS,
    ),
    "xlm-r-large": Preset(
        "FacebookAI/xlm-roberta-large", architecture="xlm-roberta", licence="mit", millions=560,
        revision="c23d21b0620b635a76227c604d44e43a9f0ee389", layer=11, pooling="mean",
        chosen_by=f"{_LSAR}, code and tables",
    ),
    "infoxlm-base": Preset(
        "microsoft/infoxlm-base", architecture="xlm-roberta", millions=278, pooling="cls", chosen_by=_ORACLE,
        note=_CONVERT,
    ),
    "infoxlm-large": Preset(
        "microsoft/infoxlm-large", architecture="xlm-roberta", millions=560, pooling="cls", chosen_by=_ORACLE,
        note=_CONVERT,
    ),
    "labse": Preset(
        "sentence-transformers/LaBSE", architecture="bert", licence="apache-2.0", millions=471,
        pipeline="cls+dense+normalize", longest=256, revision="e34fab64a3011d2176c99545a93d5cbddc9a91b7",
        chosen_by=f"{_AUTHORS}; {_LSAR}",  # longest: its sentence_bert_config.json, of commit 61966e1
    ),
    "laser1": Preset(
        "", architecture="laser", longest=None, pooling="max",
        note="convert bilstm.93langs.2018-12-26.pt, with 93langs.fcodes and 93langs.fvocab in its folder; "
        "pass language=",
    ),
    "laser2": Preset(
        "", architecture="laser", longest=None, pooling="max",
        note="convert laser2.pt, with laser2.spm in its folder",
    ),
    "sbert": Preset(
        "sentence-transformers/xlm-r-100langs-bert-base-nli-stsb-mean-tokens", architecture="xlm-roberta",
        licence="apache-2.0", millions=278, pipeline="mean", longest=128,
        # longest: its sentence_bert_config.json, of commit ddd1362.
        note=f"{_OUTLIERS} use block 8 for Tatoeba",
    ),
    # BERT, DistilBERT and XLM-R.
    "me5-small": Preset(
        "intfloat/multilingual-e5-small", architecture="bert", licence="mit", millions=118,
        pipeline="mean+normalize", prompts=_E5, revision="fd1525a9fd15316a2d503bf26ab031a61d056e98",
    ),
    "me5-base": Preset(
        "intfloat/multilingual-e5-base", architecture="xlm-roberta", licence="mit", millions=278,
        pipeline="mean+normalize", prompts=_E5, revision="d13f1b27baf31030b7fd040960d60d909913633f",
    ),
    "me5-large": Preset(
        "intfloat/multilingual-e5-large", architecture="xlm-roberta", licence="mit", millions=560,
        pipeline="mean+normalize", prompts=_E5, revision="ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb",
    ),
    "me5-large-instruct": Preset(
        "intfloat/multilingual-e5-large-instruct", architecture="xlm-roberta", licence="mit", millions=560,
        pipeline="mean+normalize", prompts=_INSTRUCT,
    ),
    "minilm": Preset(
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", architecture="bert", licence="apache-2.0",
        millions=118, pipeline="mean", longest=128, revision="e8f8c211226b894fcb81acc59f3b34ba3efd5f42",
        unchecked=("longest",),
    ),
    "mpnet": Preset(
        "sentence-transformers/paraphrase-multilingual-mpnet-base-v2", architecture="xlm-roberta",
        licence="apache-2.0", millions=278, pipeline="mean", longest=128,
        note="an XLM-R that was taught by an MPNet", unchecked=("longest",),
    ),
    "distiluse": Preset(
        "sentence-transformers/distiluse-base-multilingual-cased-v2", architecture="distilbert",
        licence="apache-2.0", millions=135, pipeline="mean+dense", longest=128, note=_CONVERT,
        unchecked=("licence", "millions"),
    ),
    "bge-m3": Preset(
        "BAAI/bge-m3", architecture="xlm-roberta", licence="mit", millions=568, pipeline="cls+normalize",
        longest=8192, revision="5617a9f61b028005a4858fdac845db406aefb181",
        note="the dense vector only; may need conversion",
    ),
    "arctic-l": Preset(
        "Snowflake/snowflake-arctic-embed-l-v2.0", architecture="xlm-roberta", licence="apache-2.0", millions=568,
        pipeline="cls+normalize", longest=8192, prompts=("query: ", ""),
    ),
    "granite-107m": Preset(
        "ibm-granite/granite-embedding-107m-multilingual", architecture="xlm-roberta", licence="apache-2.0",
        millions=107, pipeline="cls+normalize", unchecked=("pipeline",),
    ),
    "granite-278m": Preset(
        "ibm-granite/granite-embedding-278m-multilingual", architecture="xlm-roberta", licence="apache-2.0",
        millions=278, pipeline="cls+normalize", unchecked=("pipeline",),
    ),
    # Qwen3.
    "qwen3-0.6b": Preset(
        "Qwen/Qwen3-Embedding-0.6B", architecture="qwen3", licence="apache-2.0", millions=596,
        pipeline="last+normalize", longest=32768, prompts=_QWEN,
    ),
    "qwen3-4b": Preset(
        "Qwen/Qwen3-Embedding-4B", architecture="qwen3", licence="apache-2.0", millions=4022,
        pipeline="last+normalize", longest=32768, prompts=_QWEN,
    ),
    "qwen3-8b": Preset(
        "Qwen/Qwen3-Embedding-8B", architecture="qwen3", licence="apache-2.0", millions=7567,
        pipeline="last+normalize", longest=32768, prompts=_QWEN,
    ),
    "harrier-0.6b": Preset(
        "microsoft/harrier-oss-v1-0.6b", architecture="qwen3", licence="mit", millions=596,
        pipeline="last+normalize", longest=32768, prompts=_INSTRUCT,
    ),
    "f2llm-80m": Preset(
        "codefuse-ai/F2LLM-v2-80M", architecture="qwen3", licence="apache-2.0", millions=80,
        pipeline="last+normalize", longest=40960, prompts=_INSTRUCT,
    ),
    "f2llm-0.6b": Preset(
        "codefuse-ai/F2LLM-v2-0.6B", architecture="qwen3", licence="apache-2.0", millions=596,
        pipeline="last+normalize", longest=40960, prompts=_INSTRUCT,
    ),
    "f2llm-1.7b": Preset(
        "codefuse-ai/F2LLM-v2-1.7B", architecture="qwen3", licence="apache-2.0", millions=1721,
        pipeline="last+normalize", longest=40960, prompts=_INSTRUCT,
    ),
    "jina-v5-small": Preset(
        "jinaai/jina-embeddings-v5-text-small-text-matching", architecture="qwen3", licence="cc-by-nc-4.0",
        millions=596, pipeline="last+normalize", longest=32768, prompts=("Document: ",),
        note="the weights with the adapter of one task; those with adapters beside them are not read",
        unchecked=("architecture", "pipeline", "prompts"),
    ),
    # Gemma 3.
    "harrier-270m": Preset(
        "microsoft/harrier-oss-v1-270m", architecture="gemma3_text", licence="mit", millions=268,
        pipeline="last+normalize", longest=32768, prompts=_INSTRUCT,
    ),
    "embeddinggemma": Preset(
        "google/embeddinggemma-300m", architecture="gemma3_text", licence="gemma", millions=308,
        pipeline="mean+dense+dense+normalize", longest=2048, prompts=_GEMMA,
    ),
    # EuroBERT and ModernBERT.
    "jina-v5-nano": Preset(
        "jinaai/jina-embeddings-v5-text-nano-text-matching", architecture="eurobert", licence="cc-by-nc-4.0",
        millions=212, pipeline="last+normalize", longest=8192, prompts=("Document: ",),
        note="the weights with the adapter of one task; those with adapters beside them are not read",
        unchecked=("architecture", "pipeline", "prompts"),
    ),
    "granite-311m": Preset(
        "ibm-granite/granite-embedding-311m-multilingual-r2", architecture="modernbert", licence="apache-2.0",
        millions=312, pipeline="cls+normalize", longest=8192,
    ),
    "granite-97m": Preset(
        "ibm-granite/granite-embedding-97m-multilingual-r2", architecture="modernbert", licence="apache-2.0",
        millions=97, pipeline="cls+normalize", longest=8192,
    ),
    "mdenseon": Preset(
        "lightonai/mDenseOn", architecture="modernbert", licence="apache-2.0", millions=307, pipeline="mean",
        longest=8192, note="its prompts are named query and document", unchecked=("pipeline",),
    ),
    # GTE, NomicBERT, EmbeddingGemma 2, M2M-100, and tables of tokens.
    "gte": Preset(
        "Alibaba-NLP/gte-multilingual-base", architecture="new", licence="apache-2.0", millions=305,
        pipeline="cls+normalize", longest=8192,
    ),
    "arctic-m": Preset(
        "Snowflake/snowflake-arctic-embed-m-v2.0", architecture="gte", licence="apache-2.0", millions=305,
        pipeline="cls+normalize", longest=8192, prompts=("query: ", ""),
    ),
    "nomic-v2": Preset(
        "nomic-ai/nomic-embed-text-v2-moe", architecture="nomic_bert", licence="apache-2.0", millions=475,
        pipeline="mean+normalize", prompts=("search_query: ", "search_document: "),
    ),
    "embeddinggemma-2": Preset(
        "google/embeddinggemma-2", architecture="embedding_gemma2", licence="gemma", millions=271,
        pipeline="mean+dense+normalize", longest=8192, prompts=_GEMMA,
        note="the text part; the projection of each token is a layer after the pooling", unchecked=("pipeline",),
    ),
    "potion": Preset(
        "minishlab/potion-multilingual-128M", architecture="model2vec", licence="mit", millions=128,
        pipeline="mean+normalize", longest=None,
    ),
    "static-mrl": Preset(
        "sentence-transformers/static-similarity-mrl-multilingual-v1", architecture="model2vec", licence="apache-2.0",
        millions=108, pipeline="mean", longest=None,
    ),
    "bekko-static": Preset(
        "hotchpotch/bekko-static-embedding-v1", architecture="model2vec", licence="mit", millions=205, pipeline="mean",
        longest=None, unchecked=("pipeline",),
    ),
    # Of translation, with the language before the sentence.
    "sonar": Preset(
        "cointegrated/SONAR_200_text_encoder", architecture="m2m_100", licence="cc-by-nc-4.0", millions=766,
        pipeline="mean", note=f"pass language=; {_CONVERT}", unchecked=("licence", "millions", "longest"),
    ),
}  # fmt: skip
