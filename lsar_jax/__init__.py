"""Language-agnostic multilingual sentence embeddings in JAX.

text -> tokens -> hidden states -> embeddings -> transform -> scores

Whatever uses a device raises RuntimeError in a process that was forked after JAX had started (``mesh.check_process``).

Example:
  >>> rng = np.random.default_rng(0)
  >>> meaning = rng.normal(size=(200, 32))
  >>> place = 4 * np.eye(32)  # in place of an encoder: a language moves all its sentences
  >>> x = {code: meaning + place[i] + rng.normal(size=(200, 32)) / 2 for i, code in enumerate(("de", "en", "fr"))}
  >>> pool = np.concatenate([x["en"], x["de"]])  # English sentences, and the German ones themselves
  >>> lsar = lj.transforms.fit_lsar(x)
  >>> for queries, candidates in ((x["de"], pool), (lsar(x["de"]), lsar(pool))):
  ...     _, ids = lj.retrieval.nearest(queries, candidates, k=2)
  ...     print(int((ids[:, 1] == np.arange(200)).sum()), "of 200 find their translation right after themselves")
  62 of 200 find their translation right after themselves
  199 of 200 find their translation right after themselves
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsar_jax import (
        corpora,
        embeddings,
        functional,
        geometry,
        languages,
        mesh,
        mining,
        objectives,
        processes,
        retrieval,
        transforms,
    )
    from lsar_jax.encoders import EncodeBatch, EncodeReport, SentenceEncoder, load_encoder, make_encoder
    from lsar_jax.moments import Moments, PooledMoments, load_moments, merge_moments, pool_moments, save_moments
    from lsar_jax.program_cache import cache_programs
    from lsar_jax.report.explorer import explore
    from lsar_jax.retrieval import preference
    from lsar_jax.retrieval.calibration import Calibration, calibrate
    from lsar_jax.spec import EncoderSpec
    from lsar_jax.transforms import Transform
else:
    # Imported when first used: what needs no JAX, as the list of commands, does not wait for it.
    _PLACES = {
        "encoders": ("EncodeBatch", "EncodeReport", "SentenceEncoder", "load_encoder", "make_encoder"),
        "moments": ("Moments", "PooledMoments", "load_moments", "merge_moments", "pool_moments", "save_moments"),
        "program_cache": ("cache_programs",),
        "retrieval": ("preference",),
        "retrieval.calibration": ("Calibration", "calibrate"),
        "spec": ("EncoderSpec",),
        "transforms": ("Transform",),
        "report.explorer": ("explore",),
    }

    def __getattr__(name: str) -> Any:
        place = next((place for place, names in _PLACES.items() if name in names), "")
        if not place and (name.startswith("_") or find_spec(f"lsar_jax.{name}") is None):
            raise AttributeError(f"module 'lsar_jax' has no attribute {name!r}")
        module = import_module(f"lsar_jax.{place or name}")
        value = globals()[name] = getattr(module, name) if place else module
        return value


__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "EncodeBatch",
    "EncodeReport",
    "EncoderSpec",
    "Moments",
    "PooledMoments",
    "SentenceEncoder",
    "Transform",
    "cache_programs",
    "calibrate",
    "corpora",
    "embeddings",
    "explore",
    "functional",
    "geometry",
    "languages",
    "load_encoder",
    "load_moments",
    "make_encoder",
    "merge_moments",
    "mesh",
    "mining",
    "objectives",
    "pool_moments",
    "preference",
    "processes",
    "retrieval",
    "save_moments",
    "transforms",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
