"""Text in, embeddings out: ``load_encoder`` and ``SentenceEncoder``.

Example:
  >>> import tempfile
  >>> from pathlib import Path
  >>> encoder = lj.load_encoder("bundled", layer=2)
  >>> text = lj.corpora.udhr("fit", ["de", "en", "fr"])
  >>> moments = {code: encoder.moments(paragraphs) for code, paragraphs in text.items()}  # keeps no embedding
  >>> neutral = encoder.with_transform(lj.transforms.fit_lsar(moments))
  >>> neutral.spec.transform
  'lsar(rank=2)'
  >>> for each in (encoder, neutral):  # how far apart German and English are
  ...     german, english = (each.encode(text[code]).mean(axis=0) for code in ("de", "en"))
  ...     print(round(float(np.linalg.norm(german - english)), 1))
  2.3
  0.0
  >>> x, report = neutral.encode_with_report(text["de"], max_length=32)
  >>> x.shape, report.sentences, report.truncated, report.max_length
  ((25, 384), 25, 12, 32)
  >>> with tempfile.TemporaryDirectory() as folder:  # for sentence-transformers
  ...     neutral.to_sentence_transformers(f"{folder}/neutral")
  ...     sorted(path.name for path in Path(folder, "neutral").iterdir())
  ['1_Pooling', '2_Dense', 'config.json', 'config_sentence_transformers.json', 'model.safetensors', 'modules.json',
   'sentence_bert_config.json', 'tokenizer.json', 'tokenizer_config.json']
"""

from lsar_jax.checkpoints.presets import PRESETS, Preset
from lsar_jax.encoders.encode_report import EncodeReport
from lsar_jax.encoders.load import load_encoder
from lsar_jax.encoders.sentence_encoder import SentenceEncoder

__all__ = ["PRESETS", "EncodeReport", "Preset", "SentenceEncoder", "load_encoder"]
