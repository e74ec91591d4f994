"""A command line: its options, and what ``--help``, ``--help-all`` and a wrong name print.

A command with many options names in a class attribute ``essential`` which of them ``--help`` shows; ``--help-all``
shows all.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Annotated, Any, Union, cast, get_args

__all__ = ["COMPLETION", "HELP", "HELP_ALL", "nearest", "parse", "subcommands"]

HELP, HELP_ALL = ("-h", "--help"), "--help-all"
# Options of tyro that print or write a script for a shell.
COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")
_SHELLS = ("bash", "zsh", "fish")


def parse(kind: Any, prog: str, words: Sequence[str], description: str | None = None) -> Any:
    """Returns the options of a command line, a ``kind``.

    Args:
      kind: a dataclass of options, or a union of such classes.
      prog: name of the program in the help.
      words: the command line after it.
      description: text of the help above the options; by default the docstring of ``kind``.

    Raises:
      ValueError: a script for a shell is asked for that tyro cannot write.
      SystemExit: help was printed, with code 0, or the options are wrong, and tyro has printed why.
    """
    import tyro  # a list of commands needs none

    words = list(words)
    _check_completion(words)
    end = words.index("--") if "--" in words else len(words)
    place = next((number for number, word in enumerate(words[:end]) if word in (*HELP, HELP_ALL)), None)
    essential = {name for member in get_args(kind) or (kind,) for name in getattr(member, "essential", ())}
    if place is None or words[place] == HELP_ALL or not essential:
        words = ["--help" if number == place else word for number, word in enumerate(words)]
        return tyro.cli(kind, prog=prog, description=description, args=words)
    try:
        # tyro does not parse what it hides, so that only the help is printed with options hidden.
        return tyro.cli(kind, prog=prog, description=description, args=words, registry=_with_only(essential))
    except SystemExit as ended:
        if not ended.code and (place or not get_args(kind)):  # of a union, one was named
            print(f"More options: {' '.join([prog, *words[:place], HELP_ALL])}")
        raise


def _with_only(names: Collection[str]) -> Any:
    """Hides the options that are neither named nor required, in dataclasses and in those that are their fields."""
    import tyro
    from tyro.constructors import MISSING, MISSING_NONPROP, ConstructorRegistry, StructConstructorSpec

    registry, inside = ConstructorRegistry(), False

    @registry.struct_rule
    def rule(info: Any) -> Any:
        nonlocal inside
        if inside:  # called by itself, for tyro's own rule
            return None
        inside = True
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            inside = False
        if not isinstance(spec, StructConstructorSpec):
            return None
        fields, suppress = list(spec.fields), cast(Any, tyro.conf.Suppress)
        for number, field in enumerate(fields):
            if not (field.name in names or is_dataclass(field.default) or field.default in (MISSING, MISSING_NONPROP)):
                fields[number] = replace(field, type=suppress[field.type])
        return replace(spec, fields=tuple(fields))

    return registry


def subcommands(kinds: Mapping[str, Any]) -> Any:
    """The union of the options of commands, by which tyro completes their names."""
    import tyro

    return Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items())]  # noqa: UP007


def _check_completion(words: Sequence[str]) -> None:
    """Raises ValueError unless a shell and, for the second of ``COMPLETION``, a file are named."""
    option, *values = words or [""]
    if option in COMPLETION and not (len(values) == 1 + COMPLETION.index(option) and values[0] in _SHELLS):
        usage = f"{COMPLETION[0]} SHELL, or {COMPLETION[1]} SHELL FILE, where SHELL is one of {', '.join(_SHELLS)}"
        raise ValueError(f"{' '.join(words)}: write {usage}")


def nearest(name: str, names: Collection[str]) -> str:
    """Returns the name that was probably meant, as the end of an error; all of them if none is similar."""
    found = difflib.get_close_matches(name, names, 1)
    return f"did you mean {found[0]}?" if found else f"choose one of {', '.join(names)}"
