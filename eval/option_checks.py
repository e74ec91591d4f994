"""Checks of the options that all tasks share, before anything is encoded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval.methods import FITTED

__all__ = ["check_options"]


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
