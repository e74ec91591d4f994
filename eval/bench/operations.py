"""Operations of the matrix products of a program, counted in its jaxpr by the precision that they ask for.

One run on all devices together is counted, by the branch of the platform where there are several. A
multiplication and its addition count as two. What else a program computes is not counted: a sum, a sort, or the
products inside an eigendecomposition, which each device does in its own way. A loop that runs as often as its data ask
counts once.
"""

import math
from collections import Counter
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

__all__ = ["operations_of"]


def operations_of(jaxpr: ClosedJaxpr | Jaxpr, platform: str) -> Counter[str]:
    """Counts by ``bfloat16``, ``float32`` in full precision, and ``fast_float32``, which a device may round."""
    total: Counter[str] = Counter()
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name, parameters = equation.primitive.name, equation.params
        shapes: list[Any] = [getattr(variable.aval, "shape", ()) for variable in equation.invars]
        if name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            inner = math.prod(shapes[0][axis] for axis in contracted)
            total[_kind(equation)] += 2 * inner * math.prod(getattr(equation.outvars[0].aval, "shape", ()))
        elif name.startswith(("dot_product_attention_fwd", "dot_product_attention_bwd")):
            # Scores and their products with values; on the way back, the scores once more, and the gradients of
            # weights, queries, keys and values. Queries and keys are [batch, length, head, part].
            total["bfloat16"] += (4 if "_fwd" in name else 10) * math.prod(shapes[0]) * shapes[1][1]
        elif name == "cond":
            # The branch of the platform, or the cheapest: the others are for rare cases.
            counts: list[Counter[str]] = [operations_of(branch, platform) for branch in parameters["branches"]]
            if platforms := parameters.get("branches_platforms"):
                total += next(n for n, names in zip(counts, platforms, strict=True) if not names or platform in names)
            else:
                cheapest: Counter[str] = min(counts, key=Counter.total)
                total += cheapest
        else:
            times = parameters["length"] if name == "scan" else 1
            times *= parameters["mesh"].size if name == "shard_map" else 1
            for value in parameters.values():
                if isinstance(value, ClosedJaxpr | Jaxpr):
                    total.update({kind: times * n for kind, n in operations_of(value, platform).items()})
    return total


def _kind(equation: Any) -> str:
    if equation.invars[0].aval.dtype == jnp.bfloat16:
        return "bfloat16"
    precision = equation.params["precision"]
    first = precision[0] if isinstance(precision, tuple) else precision
    return "float32" if first is not None and "HIGHEST" in str(first) else "fast_float32"
