"""The loss of a batch from the embeddings that its links join, on one device or on several."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.mesh import replicated, split
from lsar_jax.objectives import align
from train.align.exchange import sent

__all__ = ["EncoderObjective", "links_loss"]

EncoderObjective = Literal["l2", "weak", "strong", "sentence"]


def links_loss(
    objective: EncoderObjective, mesh: Mesh, embeddings: Float[Array, "embedding dim"],
    source: Int[Array, " link"], target: Int[Array, " link"], valid: Bool[Array, " link"],
) -> Float[Array, ""]:  # fmt: skip
    """Returns the loss of a batch. Each device scores an equal part of the links, among the links of all devices."""
    contrastive = align.strong_contrastive_loss if objective == "strong" else align.weak_contrastive_loss
    loss: Callable[..., Float[Array, ""]] = partial(contrastive, temperature=0.05 if objective == "sentence" else 0.1)
    if objective == "l2":
        loss = align.l2_loss
    if mesh.size == 1:
        return loss(embeddings[source], embeddings[target], valid)
    (axis,) = mesh.axis_names

    def of_device(rows: Array, source: Array, target: Array, valid: Array) -> Float[Array, ""]:
        return loss(sent(rows, source, axis), sent(rows, target, axis), valid, axis_name=axis)

    source, target, valid = (jnp.pad(x, (0, -len(valid) % mesh.size)) for x in (source, target, valid))
    over_devices, everywhere = split(mesh).spec, replicated(mesh).spec
    specs = (over_devices, everywhere, everywhere, over_devices)
    of_all = jax.shard_map(of_device, mesh=mesh, in_specs=specs, out_specs=everywhere)
    return of_all(embeddings, source, target, valid)
