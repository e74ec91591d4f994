"""A job in shares: processes that need not know of each other do its parts, in any order, and a merge ends it.

Share i of n does the parts ``i::n``, and all write into one folder of work. There ``shares.json`` has n, and each share
writes its mark, ``done-00000.json``, after its last part, with what it found of the whole job, which all must find
alike.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsar_jax.checks import whole_number
from lsar_jax.files import read_json, write_json

__all__ = ["ARGUMENTS", "WHOLE", "begin_shares", "check_share", "finish_share", "found_by_shares", "share_count"]

#: The one share of a job that is not shared.
WHOLE = (0, 1)
_COUNT = "shares.json"
#: The command line of a share, and the folder that it ran in.
ARGUMENTS = "arguments.json"


def check_share(shard: tuple[int, int]) -> tuple[int, int]:
    """Returns the number of a share and the number of shares; raises ValueError if there is no such share."""
    if not isinstance(shard, tuple) or len(shard) != 2:
        raise ValueError(f"shard is {shard!r:.80}; it must be a number and the number of shares, such as (0, 4)")
    count = whole_number("the number of shares", shard[1], 1, 100_000, "each has a file")
    return whole_number("shard", shard[0], 0, count - 1, f"of {count} shares"), count


def share_count(work: Path) -> int:
    """The number of shares that a job was begun in, 1 if it is not shared."""
    path = work / _COUNT
    return int(read_json(path, dict, ("count",))["count"]) if path.is_file() else 1


def begin_shares(work: Path, output: Path, count: int, finished: bool) -> None:
    """Records the number of shares, or compares it once there are parts, unless the output is ``finished``.

    Raises:
      ValueError: the job was begun in another number of shares; without shares, it goes on only if all are done.
    """
    before = share_count(work)
    begun = any(not path.name.startswith((".", "lock", "job.", _COUNT, ARGUMENTS)) for path in work.iterdir())
    if finished or before == count:
        return
    if begun and count == 1:
        found_by_shares(work, output)
    elif begun:
        was, how = (f"in {before} shares", f"with --shard I/{before}") if before > 1 else ("whole", "without --shard")
        raise ValueError(f"{output} was begun {was}, not in {count}; go on {how}, or write another output")
    elif count == 1:
        (work / _COUNT).unlink()
    else:
        write_json(work / _COUNT, {"count": count})


def finish_share(work: Path, shard: tuple[int, int], found: Mapping[str, Any]) -> None:
    """Marks a share as done, with what it found of the whole job, as JSON values."""
    write_json(_mark(work, shard[0]), {**found, "count": shard[1]})


def found_by_shares(work: Path, output: Path) -> dict[str, Any]:
    """Returns what all shares of a job found; raises ValueError if some are missing, or found something else."""
    count = share_count(work)
    if missing := [f"{number}/{count}" for number in range(count) if not _mark(work, number).is_file()]:
        names = ", ".join(missing[:10]) + f" and {len(missing) - 10} more" * (len(missing) > 10)
        raise ValueError(f"{output} lacks the shares {names}; run its command with --shard {missing[0]}")
    marks = [read_json(_mark(work, number), dict) for number in range(count)]
    for number, found in enumerate(marks):
        if found != marks[0]:
            names = ", ".join(name for name in {**found, **marks[0]} if found.get(name) != marks[0].get(name))
            where = f"share {number}/{count} of {output}"
            raise ValueError(f"{where} differs from share 0/{count} in {names}; run it again as share 0 was run")
    return marks[0]


def _mark(work: Path, number: int) -> Path:
    return work / f"done-{number:05d}.json"
