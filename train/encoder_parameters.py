"""The parameters of an encoder by name: those to train, and those that stay as they are."""

from typing import Any, NamedTuple

import jax
from flax import nnx
from jaxtyping import Array

from lsar_jax.models.projection import Projection

__all__ = ["WORDS", "ApartEncoder", "EncoderParts", "Parameters", "Skeleton", "take_apart"]

# Parameters by name, such as ``model.blocks.0.attention.query.kernel``.
Parameters = dict[str, Array]

# The name of the word embeddings.
WORDS = "model.embeddings.word.embedding"


class EncoderParts(NamedTuple):
    """The modules of an encoder: the transformer, and the layers after pooling, or None."""

    model: Any
    projection: Projection | None


class Skeleton:
    """The modules of an encoder, and apart from them their ``parameters``."""

    def __init__(self, parts: EncoderParts) -> None:
        self._graph, state = nnx.split(parts._asdict())
        leaves = {".".join(map(str, path)): (path, leaf) for path, leaf in nnx.to_flat_state(state)}
        self.parameters: Parameters = {name: leaf.get_value() for name, (_, leaf) in leaves.items()}
        # Only the kinds of parameters, not their values.
        self._kinds = {
            name: (path, leaf.replace(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)))
            for name, (path, leaf) in leaves.items()
        }

    def filled(self, parameters: Parameters) -> EncoderParts:
        """Returns the modules with parameters, which must be all there are."""
        state = [(path, kind.replace(parameters[name])) for name, (path, kind) in self._kinds.items()]
        return EncoderParts(**nnx.merge(self._graph, nnx.from_flat_state(state)))


# The modules without their parameters, the parameters to train, and the frozen ones.
ApartEncoder = tuple[Skeleton, Parameters, Parameters]


def take_apart(parts: EncoderParts, freeze_words: bool) -> ApartEncoder:
    """Takes an encoder apart; only the embeddings of words can be frozen."""
    skeleton = Skeleton(parts)
    trained, skeleton.parameters = skeleton.parameters, {}
    frozen = {WORDS: trained.pop(WORDS)} if freeze_words and WORDS in trained else {}
    return skeleton, trained, frozen
