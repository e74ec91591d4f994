"""Named presets: the encoders of the papers, and the multilingual embedders that are in use.

The table is ``presets.csv``. What else is known of these encoders (licences, sizes, prompts) is on the page
docs/reference/encoders.md.
"""

from dataclasses import dataclass
from pathlib import Path

from lsar_jax.files import read_table

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True)
class Preset:
    """The settings of one encoder.

    Attributes:
      id: id on the Hub; empty if the encoder is not on the Hub.
      revision: commit on the Hub; None for the newest.
      layer: layer that a paper used and ``encode`` returns; None for the last.
      pooling: pooling of the hidden states; None for the one in the checkpoint's ``modules.json``.
      published: the pooling and the layers after it, as in ``EncoderSpec.pooling``, with which the checkpoint was
        published; empty if they are not known.
      files: the files to convert, if the encoder is not on the Hub.
    """

    id: str
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    published: str = ""
    files: str = ""


def _preset(id: str, revision: str, layer: str, pooling: str, published: str, files: str) -> Preset:
    return Preset(id, revision or None, int(layer) if layer else None, pooling or None, published, files)


#: The presets by name.
PRESETS = {row.pop("name"): _preset(**row) for row in read_table(Path(__file__).with_name("presets.csv"))}
