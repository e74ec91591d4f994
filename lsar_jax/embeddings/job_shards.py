"""A job in shards: processes that need not know of each other do its parts, in any order, and a merge ends it.

Shard i of n does the parts ``i::n``, and all write into one folder of work. There ``shards.json`` has n, and each shard
writes its mark, ``done-00000.json``, after its last part, with what it found of the whole job, which all must find
alike.
"""

from pathlib import Path
from typing import Any

from lsar_jax.files import read_json, write_json

__all__ = ["WHOLE", "begin_shards", "check_shard", "finish_shard", "found_by_shards", "shard_count"]

#: The one shard of a job that is not shared.
WHOLE = (0, 1)
_COUNT = "shards.json"


def check_shard(shard: tuple[int, int]) -> tuple[int, int]:
    """Returns the number of a shard and the number of shards; raises ValueError if there is no such shard."""
    number, count = shard
    if not 0 <= number < count <= 100_000:
        raise ValueError(f"there is no shard {number}/{count}; shards are 0/N to N-1/N, of at most 100000")
    return int(number), int(count)


def shard_count(work: Path) -> int:
    """The number of shards that a job was begun in, 1 if it is not shared."""
    path = work / _COUNT
    return int(read_json(path, dict, ("count",))["count"]) if path.is_file() else 1


def begin_shards(work: Path, output: Path, shard: tuple[int, int], begun: bool) -> None:
    """Records the number of shards, or compares it; ``begun`` says whether the job is recorded.

    Raises:
      ValueError: the job was begun in another number of shards; without shards, it goes on only if all are done.
    """
    count, before = shard[1], shard_count(work)
    if count == 1 < before:
        found_by_shards(work, output)
    elif before != count and (begun or before > 1):
        how = f"with --shard I/{before}" if before > 1 else "without --shard"
        raise ValueError(f"{output} was begun in {before} shards, not in {count}; go on {how}, or write another output")
    elif before != count:
        write_json(work / _COUNT, {"count": count})


def finish_shard(work: Path, shard: tuple[int, int], **found: Any) -> None:
    """Marks a shard as done, with what it found of the whole job, as JSON values."""
    write_json(_mark(work, shard[0]), {"count": shard[1], **found})


def found_by_shards(work: Path, output: Path) -> dict[str, Any]:
    """Returns what all shards of a job found; raises ValueError if some are missing, or found something else."""
    count = shard_count(work)
    if missing := [f"{number}/{count}" for number in range(count) if not _mark(work, number).is_file()]:
        names = ", ".join(missing[:10]) + f" and {len(missing) - 10} more" * (len(missing) > 10)
        raise ValueError(f"{output} lacks the shards {names}; run its command with --shard {missing[0]}")
    marks = [read_json(_mark(work, number), dict) for number in range(count)]
    for number, found in enumerate(marks):
        if found != marks[0]:
            names = ", ".join(name for name in {**found, **marks[0]} if found.get(name) != marks[0].get(name))
            raise ValueError(
                f"shard {number}/{count} of {output} has other {names} than shard 0/{count}; run all on the "
                "same inputs, into another output"
            )
    return marks[0]


def _mark(work: Path, number: int) -> Path:
    return work / f"done-{number:05d}.json"
