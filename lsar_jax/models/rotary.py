"""Rotary positions (Su et al., "RoFormer", 2021): queries and keys are turned by an angle for each position.

The two halves of a vector are the two coordinates of its planes, as in all checkpoints that this library reads.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsar_jax.checks import check_choice, positive_number

__all__ = ["Rotary"]

# What configs call the numbers of turns ``slow`` and ``fast`` of each kind of scaling, and what these are by default.
_TURNS: dict[str, dict[str, float | None]] = {
    "default": {},
    "linear": {},
    "llama3": {"low_freq_factor": None, "high_freq_factor": None},
    "yarn": {"beta_slow": 1.0, "beta_fast": 32.0},
}


@dataclass(frozen=True)
class Rotary:
    """The angle of plane i at position p is ``p * theta^(-2 i / width)``, or ``1 / factor`` as much where scaled.

    Linear scaling is of every plane. The others leave planes of many turns as they are, scale those of few, and mix
    both in between: ``llama3`` by the number of turns (Grattafiori et al., "The Llama 3 Herd of Models", 2024), and
    ``yarn`` by the number of the plane (Peng et al., "YaRN", ICLR 2024).

    Attributes:
      theta: the base.
      factor: by how much positions are drawn together.
      kind: ``linear``, ``llama3`` or ``yarn``.
      slow: number of turns over ``original`` positions up to which a plane is scaled.
      fast: number of turns from which it is not.
      original: number of positions before the scaling.
      length: factor of the turned vectors, in ``yarn``.
      beta: queries are multiplied by ``1 + beta * ln(1 + floor(p / original))``, in Ministral 3.
    """

    theta: float
    factor: float = 1.0
    kind: str = "linear"
    slow: float = 1.0
    fast: float = 1.0
    original: float = 1.0
    length: float = 1.0
    beta: float = 0.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any], *, beta: bool = False) -> "Rotary":
        """Returns the positions that ``parameters`` describes, with ``beta`` as Ministral 3 has them.

        Raises:
          ValueError: the scaling is not one of those above, or a number is missing or not positive.
        """

        def given(name: str, default: float | None = None) -> float:
            value = parameters.get(name)
            return positive_number(f"{name} of rope_scaling in config.json", default if value is None else value)

        kind, theta = parameters.get("rope_type", parameters.get("type", "default")), parameters["rope_theta"]
        check_choice("rope_type", kind, _TURNS)
        for name in ("partial_rotary_factor", "truncate"):
            if parameters.get(name) not in (None, 1):
                raise ValueError(f"{name} is {parameters[name]!r} in config.json; only 1 is supported")
        found: dict[str, Any] = {"factor": given("factor")} if kind != "default" else {}
        if beta:
            found["beta"] = given("llama_4_scaling_beta")
        if _TURNS[kind]:
            turns = zip(("slow", "fast"), _TURNS[kind].items(), strict=True)
            found |= {"kind": kind} | {ours: given(*theirs) for ours, theirs in turns}
            positive_number(f"{' before '.join(_TURNS[kind])} by", found["fast"] - found["slow"])
        if kind == "yarn":
            scales = [given(name) for name in ("mscale", "mscale_all_dim") if parameters.get(name)]
            above, below = scales if len(scales) == 2 else (1.0, 0.0)
            grown = math.log(max(found["factor"], 1.0)) / 10
            found["length"] = given("attention_factor", (1 + above * grown) / (1 + below * grown))
        if _TURNS[kind] or beta:
            found["original"] = given("original_max_position_embeddings")
        return cls(theta, **found)

    def parameters(self) -> dict[str, str | float]:
        """Returns what a config of version 5 of transformers calls ``rope_parameters``."""
        kind = "default" if self.kind == "linear" and self.factor == 1 else self.kind
        named: dict[str, str | float] = {"rope_type": kind, "rope_theta": self.theta}
        named |= {} if kind == "default" else {"factor": self.factor}
        named |= dict(zip(_TURNS[kind], (self.slow, self.fast), strict=False))
        named |= {"attention_factor": self.length} if kind == "yarn" else {}
        named |= {"original_max_position_embeddings": self.original} if _TURNS[kind] or self.beta else {}
        return named | ({"llama_4_scaling_beta": self.beta} if self.beta else {})

    def frequencies(self, width: int) -> Float[np.ndarray, " plane"]:
        """Returns the angle between neighbouring positions, in each plane of a head of this width."""
        # In float32 like those that the models were trained with: at far positions, the rounding shows.
        powers = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        whole = np.float32(1) / np.float32(self.theta) ** powers
        scaled = whole / np.float32(self.factor)
        if self.kind == "linear":
            return scaled
        if self.kind == "llama3":
            ramp = (self.original * whole / np.float32(2 * math.pi) - self.slow) / (self.fast - self.slow)
        else:
            # The planes of so many turns, rounded outwards.
            slow, fast = (
                width * math.log(self.original / (2 * math.pi * turns)) / (2 * math.log(self.theta))
                for turns in (self.slow, self.fast)
            )
            first, last = max(math.floor(fast), 0), min(math.ceil(slow), width - 1)
            ramp = 1 - (np.arange(width // 2) - first) / (last - first or 1e-3)
        kept = np.clip(ramp, 0, 1).astype(np.float32)
        return whole * kept + scaled * (1 - kept)

    def query_scale(self, positions: Int[Array, "batch length"]) -> Float[Array, "batch length 1 1"]:
        """Returns the factor of the queries at each position."""
        return (1 + self.beta * jnp.log1p(jnp.floor(positions.astype(jnp.float32) / self.original)))[:, :, None, None]

    def __call__(
        self, x: Float[Array, "batch length head width"], positions: Int[Array, "batch length"]
    ) -> Float[Array, "batch length head width"]:
        """Returns x, turned; angles are in float32 whatever the dtype of x is."""
        angles = (positions.astype(jnp.float32)[:, :, None] * self.frequencies(x.shape[-1])[None, None])[:, :, None]
        cos, sin = jnp.cos(angles) * self.length, jnp.sin(angles) * self.length
        first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)
