"""A result of an evaluation as tests of what reads results need it."""

from dataclasses import replace

from eval.data.tatoeba import XTREME_36
from lsar_jax.measures.results import Result

__all__ = ["made_result"]


def made_result(**changes):
    """The original's accuracy on Tatoeba, from English, with the given fields changed."""
    made = Result(
        task="tatoeba", languages=tuple(XTREME_36), encoder="bundled", revision="1", layer=8, pooling="mean",
        dtype="float32", max_length=128, transform="original", parameters={}, fitted_on="", metric="en-xx mean over 36",
        value=50.0, n=31_692, seed=None, seconds=0.0, direction="higher",
    )  # fmt: skip
    return replace(made, **changes)
