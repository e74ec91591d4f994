"""Compiled programs on disk, so that later processes need not compile them again.

It is JAX's cache, in a folder that only its owner can write, since a program is machine code, and of one kind of
processor, since a program for another may not run.
"""

import contextlib
import hashlib
import os
import platform
import stat
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from lsar_jax.mesh import cpu_features

__all__ = ["cache_programs"]

# Programs that compile faster than this are not kept, in seconds.
_LEAST_SECONDS = 0.1
_MOST_BYTES = 1 << 30


def cache_programs(folder: str | Path | None = None) -> Path:
    """Keeps compiled programs in a folder from now on, and reads those that are there.

    The commands do this by themselves. A folder that JAX was given already, as with ``JAX_COMPILATION_CACHE_DIR``,
    stays. If the folder exceeds 1 GiB at the call, it is emptied.

    Args:
      folder: the folder, which is created, or a link to one; by default ``lsar_jax/programs`` in ``$XDG_CACHE_HOME``,
        or in ``~/.cache``.

    Returns:
      The folder in use: one inside ``folder`` for this kind of processor.

    Raises:
      ValueError: others can write the folder, or it, or a link to it, belongs to somebody else; they could put programs
        there. Or the folder inside ``folder`` is a link.
      FileNotFoundError: there is no home folder to create it in.
      OSError: the folder cannot be created.

    Example:
      >>> folder = lj.cache_programs()
    """
    given = jax.config.values["jax_compilation_cache_dir"]
    if given and folder is None:
        return Path(given)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lsar_jax"
    except RuntimeError as error:  # a user without an entry in the password file, as in containers
        raise FileNotFoundError("there is no home folder; set HOME, XDG_CACHE_HOME or folder") from error
    root = home / "programs" if folder is None else Path(folder)
    used = root / f"{platform.machine()}-{hashlib.sha256(cpu_features().encode()).hexdigest()[:12]}"
    folders = [root] if folder is not None else [home, root]
    # One by one, as the mode that mkdir is given is not that of parents, which a group may write by default.
    for parent in reversed([used, *used.parents]):
        parent.mkdir(exist_ok=True, mode=0o700)
    for path in (*folders, used):
        _check_private(path)
    if used.is_symlink():
        raise ValueError(f"{used} is a link, and files where it leads would be deleted; replace it by a folder")
    _empty_if_large(used)
    jax.config.update("jax_compilation_cache_dir", str(used))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    # JAX decides once whether it has a cache.
    compilation_cache.reset_cache()
    return used


def _check_private(folder: Path) -> None:
    state = folder.stat()
    if not hasattr(os, "getuid"):
        return
    writable = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # Who owns a link can let it lead elsewhere later.
    if writable or {state.st_uid, folder.lstat().st_uid} != {os.getuid()}:
        who = "others can write it" if writable else "it belongs to another user"
        raise ValueError(f"programs in {folder} would be run, and {who}; delete it, or choose a folder of your own")


def _empty_if_large(folder: Path) -> None:
    # JAX's own limit stops all writing once a process was killed between the two files of a program.
    files = [path for path in folder.rglob("*") if not path.is_dir()]  # on GPUs, XLA has a folder of its own in it
    with contextlib.suppress(FileNotFoundError):  # another process empties it, too
        if sum(path.lstat().st_size for path in files) > _MOST_BYTES:
            for path in files:
                path.unlink()
