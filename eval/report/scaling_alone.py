"""Whether local scaling by itself gains as much as a method: the first question about scores by CSLS."""

from collections.abc import Mapping

from lsar_jax.measures.compared_methods import CSLS
from lsar_jax.measures.metric import Kind
from lsar_jax.measures.resampling import Interval

__all__ = ["scaling_alone"]

_ALONE = f"original{CSLS}"


def scaling_alone(gains: Mapping[tuple[str, str, str], Interval], kinds: Mapping[str, Kind]) -> list[str]:
    """Returns a line for each encoder and layer: the methods by cosine that CSLS alone reaches across languages.

    Args:
      gains: difference of each method from the original embeddings, by encoder and layer, method and column.
      kinds: kind of each column.
    """
    lines = []
    for where in dict.fromkeys(at for at, name, _ in gains if name == _ALONE):
        reached = [
            f"{name} in {column} ({alone.value:+.1f} and {gain.value:+.1f})"
            for (at, name, column), gain in gains.items()
            if at == where and kinds[column] == "across languages" and not name.partition(" ")[0].endswith(CSLS)
            and (alone := gains.get((where, _ALONE, column))) and 0 < gain.value <= alone.value
        ]  # fmt: skip
        lines.append(f"{where}: CSLS alone gains as much as {', '.join(reached) or 'no method that gains'}.")
    return lines
