"""Runs a command from the command line: finds it by name, parses its options, and reports user errors on one line."""

import importlib
import io
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from lsar_jax.console.command_line import COMPLETION, HELP, HELP_ALL, nearest, parse, subcommands
from lsar_jax.extras import install_hint

__all__ = ["Command", "commands_in", "run", "run_named"]

# As in ``lsar_jax.processes.start``, which needs JAX, as everything but a list of commands does.
START = "--distributed"
# Characters of an error, and of a word in it, such as a path.
_LONGEST = 3000
_LONGEST_WORD = 200
# The status of a program whose output nobody reads, as shells report SIGPIPE.
_BROKEN_PIPE = 141
# Ends of a command that have a line of their own; others have a trace.
_EXPECTED = (ValueError, OSError, ImportError, KeyboardInterrupt, SystemExit)


class Command(NamedTuple):
    """A command: its module, imported only when it runs, in it the dataclass of options, and its line in the list."""

    module: str
    kind: str
    what: str

    def options(self) -> Any:
        """The dataclass of options, or a union of such classes; imports its module."""
        return getattr(importlib.import_module(self.module), self.kind)


def commands_in(path: Path) -> dict[str, dict[str, Command]]:
    """Reads, from a TOML file, the fields of commands by their name, in groups with a title."""
    groups = tomllib.loads(path.read_text(encoding="utf-8")).items()
    return {title: {name: Command(*parts) for name, parts in group.items()} for title, group in groups}


def run(
    kind: Any,
    prog: str,
    arguments: Sequence[str] | None = None,
    description: str | None = None,
    *,
    shared: bool = False,
) -> int:
    """Runs a command, and returns its exit status: 0, or 1 after a user error, which is printed as one line.

    Args:
      kind: a dataclass of options with a ``run`` method, or a union of such classes.
      prog: name of the program in ``--help``.
      arguments: command-line arguments; by default, this process's.
      description: text shown by ``--help``; by default the docstring of ``kind``.
      shared: whether several processes can run it together, which a first argument ``--distributed`` then connects.
    """
    import jax

    from lsar_jax.processes import check_alike
    from lsar_jax.program_cache import cache_programs

    _open_output()
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        command = parse(kind, prog, _connected(words) if shared else words, description)
        if hasattr(command, "arguments"):  # with which a merge of its shares goes on
            command = replace(command, arguments=(*prog.split()[1:], *words))
        if shared:
            check_alike("the options", repr(command))
        try:
            cache_programs()
        except (OSError, ValueError) as error:
            print(f"warning: compiled programs are not kept: {error}", file=sys.stderr)
        command.run()
        return _flushed(0)
    except BaseException as error:
        together = jax.distributed.is_initialized()
        if not together and not isinstance(error, _EXPECTED):
            raise
        status = _flushed(_status(error, prog))
        if not together and isinstance(error, SystemExit):
            raise SystemExit(status) from error
    if together:
        sys.stderr.flush()
        # At its usual end, this process would wait for the others, which wait for it.
        os._exit(status)
    return status


def _status(error: BaseException, prog: str) -> int:
    """Prints the error of a command on one line, or with its trace if it is unexpected; returns its exit status."""
    import jax

    match error:
        case BrokenPipeError():
            return _BROKEN_PIPE
        case ValueError() | OSError():
            return _fail(str(error), 1)
        case ImportError():
            return _fail(install_hint(error, prog), 1)
        case SystemExit():  # of tyro, which has printed why
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        case KeyboardInterrupt():
            print("stopped", file=sys.stderr)
            return 130
    traceback.print_exception(error)
    if isinstance(error, jax.errors.JaxRuntimeError):
        print("error: a shared computation failed; if another process ended, start the job again", file=sys.stderr)
    return 1


def run_named(
    groups: Mapping[str, Mapping[str, Command]],
    prog: str,
    arguments: Sequence[str] | None = None,
    *,
    noun: str = "command",
    about: str = "",
) -> int:
    """Runs the command that the first argument names, and returns its exit status, or 2 if no known one is named.

    ``--help``, or no argument, lists the commands; ``--version`` prints versions.

    Args:
      groups: commands by name, in groups with a title, which may be empty.
      prog: name of the program.
      arguments: command-line arguments; by default, this process's.
      noun: what a command is called.
      about: text above the list.
    """
    _open_output()
    commands = {name: command for group in groups.values() for name, command in group.items()}
    words = sys.argv[1:] if arguments is None else list(arguments)
    if any(word.partition("=")[0] == START for word in words):
        return _fail(f"{START} is for training alone; give each process of encode, fit, apply or mine --shard I/N", 2)
    if words == ["--version"]:
        return _flushed(0, f"lsar_jax {version('lsar_jax')}, jax {version('jax')}, Python {sys.version.split()[0]}\n")
    if not words or words[0] in (*HELP, HELP_ALL):
        width = max(map(len, commands))
        text = f"usage: {prog} {noun.upper()} [OPTIONS]\n" + (f"\n{about}\n" if about else "")
        for title, group in groups.items():
            text += f"\n{title}:\n" if title else "\n"
            text += "".join(f"  {name:{width}}  {command.what}\n" for name, command in group.items())
        return _flushed(0 if words else 2, text)
    name, *arguments = words
    if name not in (*commands, *COMPLETION):
        return _fail(f"unknown {noun} {name!r}; {nearest(name, commands)}", 2)
    try:
        if name in COMPLETION:
            kinds = {name: command.options() for name, command in commands.items()}
            # Shells complete by the first word: python -m eval is then called by an alias.
            return run(subcommands(kinds), prog.replace("python -m ", "lsar-"), words)
        options = commands[name].options()
    except ImportError as error:
        return _fail(install_hint(error, f"{prog} {name}"), 1)
    return run(options, f"{prog} {name}", arguments)


def _connected(arguments: list[str]) -> list[str]:
    """Connects the processes if the first argument is ``--distributed``, and returns the others."""
    first, sign, where = arguments[0].partition("=") if arguments else ("", "", "")
    if first != START:
        return arguments
    if sign and not where:
        raise ValueError(f"{START}= has no address; give HOST:PORT,NUMBER/COUNT, or {START} alone")
    from lsar_jax.processes import start_processes

    start_processes(where)
    return arguments[1:]


def _open_output() -> None:
    """Lets the output take any name of a file, which need not be UTF-8, and go nowhere if it is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the end of the process
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _flushed(status: int, text: str = "") -> int:
    """Prints a text and what is left of the output, and returns the status, or another if that fails."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        # What is left would be written again at the exit of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # as of head, which has read enough
            return _BROKEN_PIPE
        return _fail(f"the output was not written: {error}", 1)
    return status


def _fail(message: str, status: int) -> int:
    # A path or a value in it may have thousands of characters.
    message = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}...{word[0][-20:]}", message)
    short = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} ... {message[-_LONGEST // 2 :]}"
    print(f"error: {short}", file=sys.stderr)
    return status
