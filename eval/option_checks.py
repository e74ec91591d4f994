"""Checks of the options that all tasks share, before anything is encoded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.methods import FITTED, Method
from lsar_jax import EncoderSpec

__all__ = ["check_distinct_methods", "check_options", "check_spaces"]


def check_options(options: Mapping[str, Sequence[Any]], lacking: Callable[[str], str], fitted: int) -> None:
    """Checks the layers, methods and ranks of a task.

    Args:
      options: the options that may have several values, by name.
      lacking: returns why the task cannot fit a method, as the end of a sentence.
      fitted: number of languages to fit on.

    Raises:
      ValueError: an option has a value twice or none, or a method cannot be fitted.
    """
    for option, values in options.items():
        if len(set(values)) != len(values):
            raise ValueError(
                f"--{option.replace('_', '-')} {' '.join(map(str, values))} contains a value twice; remove duplicates"
            )
    if not options["layers"] or not options["transforms"]:
        raise ValueError("--layers and --transforms need at least one value each")
    for name in options["transforms"]:
        if why := lacking(name):
            raise ValueError(f"--transforms has {name}, {why}")
    ranked = any(FITTED[name].varied == "rank" for name in options["transforms"] if name in FITTED)
    if ranked and fitted < 2:
        raise ValueError("lsar needs at least two languages to fit on, but there is one; omit it from --transforms")
    if ranked and max(options["ranks"], default=1) >= fitted:
        raise ValueError(
            f"--ranks has {max(options['ranks'])}, but the means of {fitted} languages span at most {fitted - 1} "
            "dimensions; lower the rank"
        )


def check_distinct_methods(saved: Mapping[Path, Method]) -> None:
    """Raises ValueError if two saved files have the same method, embeddings and seed."""
    named = [(method.label, method.seed, method.source) for method in saved.values()]
    for path, one in zip(saved, named, strict=True):
        if named.count(one) > 1:
            raise ValueError(
                f"{path} has the same method {one[0]!r}, embeddings and seed as another --saved file; omit one"
            )


def check_spaces(saved: Mapping[Path, Method], specs: Sequence[EncoderSpec]) -> None:
    """Raises ValueError if a saved transform was fitted on none of the embeddings that ``specs`` name."""
    for path, method in saved.items():
        source = method.source
        if source and not any(source.same_space(spec) for spec in specs):
            told = ", or ".join(source.difference(spec) for spec in specs)
            raise ValueError(
                f"{path} was fitted on other embeddings than this task uses: {told}; omit the file, or choose the "
                "encoder and layer that it was fitted on"
            )
