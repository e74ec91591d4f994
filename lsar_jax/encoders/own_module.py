"""Makes a ``SentenceEncoder`` of a Flax module of the user's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lsar_jax.arrays import digest
from lsar_jax.checks import whole_number
from lsar_jax.encoders.program import EncoderModel
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.models.pooling import pool
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.tokenizer import FastTokenizer, Specials

__all__ = ["make_encoder"]


def make_encoder(
    module: EncoderModel, tokenizer: Any, *, pooling: str = "mean", layer: int | None = None
) -> SentenceEncoder:
    """Returns the encoder of a Flax module of your own, on all local devices.

    Args:
      module: an NNX module with the method and attributes of ``EncoderModel``: ``hidden_states(ids, lengths)`` yields
        layers 0, 1, ... of rows of tokens ``[batch, length]``; ``lengths``, ``[batch, segment]``, says how many tokens
        each of the sentences that follow each other in a row has. They must not see each other, nor the padding.
      tokenizer: of the ``tokenizers`` library, or one of transformers that has such a backend.
      pooling: as of ``load_encoder``, but for ``pooler``.
      layer: what ``encode`` returns; by default, the last layer.

    Raises:
      ValueError: an argument is not one of those above, or the states of a sentence depend on what else is in its row.

    Example:
      >>> bundled = lj.load_encoder("bundled", layer=1)  # whose module stands for yours
      >>> encoder = lj.make_encoder(bundled.model, bundled.tokenizer.backend, pooling="max")
      >>> encoder.encode(["All human beings are born free."]).shape
      (1, 384)
    """
    last = len(module.config.widths) - 1
    layer = last if layer is None else whole_number("layer", layer, 0, last, "the layers of the module")
    _check_states(module, pooling)
    weights = [leaf for leaf in jax.tree.leaves(module) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    revision = f"weights:{digest(*map(np.asarray, weights))}"
    spec = EncoderSpec(type(module).__name__, revision, layer, pooling, jnp.dtype(module.dtype).name)
    tokens = FastTokenizer(getattr(tokenizer, "backend_tokenizer", tokenizer), 0, module.config.longest)
    mesh = data_mesh()
    return SentenceEncoder(jax.device_put(module, replicated(mesh)), tokens, spec, mesh, pooling=pooling)


def _check_states(module: EncoderModel, pooling: str) -> None:
    """Raises ValueError unless a sentence has the same vector in any row."""
    # The second sentence of the first row, of three tokens, stands alone in the second row.
    ids = jnp.array([[0, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]], jnp.int32)
    lengths = jnp.array([[2, 3], [3, 0]], jnp.int32)
    for layer, states in enumerate(module.hidden_states(ids, lengths)):
        x = np.asarray(pool(pooling, states, lengths, Specials(0, 0)))
        if np.abs(x[0, 1] - x[1, 0]).max() > 0.02 * np.abs(x).max():
            raise ValueError(
                f"at layer {layer}, the states of a sentence depend on what else is in its row; take positions and "
                "what attention sees from lengths, as with lsar_jax.models.segments"
            )
