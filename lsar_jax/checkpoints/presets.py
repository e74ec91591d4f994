"""Named presets for the encoders used in the papers.

A preset gives the Hub id and commit of an encoder, and the layer and pooling that a paper used. As everywhere in this
library, layer 0 is the embedding output and layer k the output of block k.
"""

from dataclasses import dataclass

__all__ = ["PRESETS", "Preset"]

_LSAR = "Xie et al. 2022 (LSAR)"
_OUTLIERS = "Haemmerl et al. 2023"
_ORACLE = "ORACLE, after DREAM and MEAT"
_AUTHORS = "its authors"
_E5 = "expects prompt='query: ' or 'passage: '"


@dataclass(frozen=True)
class Preset:
    """The settings of one encoder.

    Attributes:
      id: id on the Hub; empty if the encoder is not on the Hub.
      revision: commit on the Hub; None for the newest.
      layer: layer that ``encode`` returns; None for the last.
      pooling: pooling of the hidden states; None for the one in the checkpoint's ``modules.json``.
      chosen_by: source of this layer and pooling.
      note: information for users of the encoder.
    """

    id: str
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    chosen_by: str = _AUTHORS
    note: str = ""


# The presets by name.
PRESETS = {
    "mbert": Preset(
        "google-bert/bert-base-multilingual-cased",
        "3f076fdb1ab68d5b2880cb87a0886f315b8146f8", 8, "mean", f"{_LSAR}, {_OUTLIERS}",
    ),
    "mbert-uncased": Preset("google-bert/bert-base-multilingual-uncased", None, 8, "mean", "same as mbert"),
    "xlm-100": Preset(
        # The released code keeps the last 12 of the 16 blocks; the paper's "layer 8" is the eighth of them.
        "FacebookAI/xlm-mlm-100-1280", None, 12, "mean", f"{_LSAR}, code; its text calls it layer 8",
        "words are split by language, so pass language=; LSAR lower-cased its text; may need conversion",
    ),
    "xlm-r-base": Preset(
        "FacebookAI/xlm-roberta-base", "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089", 8, "mean", _OUTLIERS
    ),
    "xlm-r-large": Preset(
        "FacebookAI/xlm-roberta-large",
        "c23d21b0620b635a76227c604d44e43a9f0ee389", 11, "mean", f"{_LSAR}, code and tables",
    ),
    "infoxlm-base": Preset("microsoft/infoxlm-base", None, None, "cls", _ORACLE, "may need conversion"),
    "infoxlm-large": Preset("microsoft/infoxlm-large", None, None, "cls", _ORACLE, "may need conversion"),
    "labse": Preset(
        "sentence-transformers/LaBSE", "e34fab64a3011d2176c99545a93d5cbddc9a91b7", chosen_by=f"{_AUTHORS}; {_LSAR}"
    ),
    "laser1": Preset("", pooling="max", note="convert bilstm.93langs.2018-12-26.pt, with 93langs.fcodes and "
                     "93langs.fvocab in its folder; pass language="),
    "laser2": Preset("", pooling="max", note="convert laser2.pt, with laser2.spm in its folder"),
    "sbert": Preset(
        "sentence-transformers/xlm-r-100langs-bert-base-nli-stsb-mean-tokens",
        note=f"{_OUTLIERS} use block 8 for Tatoeba",
    ),
    "me5-small": Preset("intfloat/multilingual-e5-small", "fd1525a9fd15316a2d503bf26ab031a61d056e98", note=_E5),
    "me5-base": Preset("intfloat/multilingual-e5-base", "d13f1b27baf31030b7fd040960d60d909913633f", note=_E5),
    "me5-large": Preset("intfloat/multilingual-e5-large", "ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb", note=_E5),
    "minilm": Preset(
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "e8f8c211226b894fcb81acc59f3b34ba3efd5f42"
    ),
    "bge-m3": Preset(
        "BAAI/bge-m3", "5617a9f61b028005a4858fdac845db406aefb181", note="the dense vector only; may need conversion"
    ),
}  # fmt: skip
