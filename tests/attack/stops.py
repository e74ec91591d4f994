"""Stops a call before any of its changes of files, as a process is that is killed."""

import os
import sys

__all__ = ["Killed", "count_changes", "end_after"]

_left = None


class Killed(BaseException):
    """A job was stopped."""


def end_after(done, error=Killed):
    """A function that ends a job when so much of it is done."""

    def end(progress):
        if progress.done >= done:
            raise error

    return end


def count_changes(call, stop=1 << 30):
    """Returns the changes of files with relative paths that a call makes; raises Killed before number ``stop``."""
    global _left
    _left = stop
    try:
        call()
        return stop - _left
    finally:
        _left = None


def _before_change(event, arguments):
    global _left
    if _left is None or event not in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
        return
    path = os.fspath(arguments[0]) if isinstance(arguments[0], str | os.PathLike) else "/"
    reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    # A dead process has no lock, and its last changes of other files do not come either.
    if not reads and not os.path.isabs(path) and not path.endswith("lock"):
        _left -= 1
        if _left < 0:
            raise Killed


sys.addaudithook(_before_change)
