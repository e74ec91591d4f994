"""The parameters of an encoder by name: those to train, and those that stay as they are."""

from typing import Any, NamedTuple

import jax
from flax import nnx
from jaxtyping import Array

from lsar_jax.models.projection import Projection

__all__ = ["WORDS", "EncoderParts", "Parameters", "Skeleton", "take_apart"]

# Parameters by name, such as ``model.blocks.0.query.kernel``.
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
        self.parameters: Parameters = {}
        self._parts: dict[str, tuple[Any, list[tuple[Any, Any]]]] = {}
        for part, module in parts._asdict().items():
            if module is not None:
                graph, state = nnx.split(module)
                leaves = list(nnx.to_flat_state(state))
                self.parameters |= {_name(part, path): leaf.get_value() for path, leaf in leaves}
                # Only the kinds of parameters, not their values.
                kinds = [(path, leaf.replace(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))) for path, leaf in leaves]
                self._parts[part] = graph, kinds

    def filled(self, parameters: Parameters) -> EncoderParts:
        """Returns the modules with parameters, which must be all there are."""
        modules = {}
        for part, (graph, kinds) in self._parts.items():
            state = [(path, kind.replace(parameters[_name(part, path)])) for path, kind in kinds]
            modules[part] = nnx.merge(graph, nnx.from_flat_state(state))
        return EncoderParts(modules["model"], modules.get("projection"))


def take_apart(parts: EncoderParts, freeze_words: bool) -> tuple[Skeleton, Parameters, Parameters]:
    """Returns the modules without their parameters, the parameters to train, and the frozen ones: words, or none."""
    skeleton = Skeleton(parts)
    trained, skeleton.parameters = skeleton.parameters, {}
    frozen = {WORDS: trained.pop(WORDS)} if freeze_words and WORDS in trained else {}
    return skeleton, trained, frozen


def _name(part: str, path: tuple[Any, ...]) -> str:
    return ".".join([part, *map(str, path)])
