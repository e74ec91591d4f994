"""The areas that ``python -m tests.attack`` attacks at random.

An attack holds if the outcome is right, or an error of one line that a user can act on. It breaks if it raises
``Broke``, or anything but such an error.
"""

from collections.abc import Callable
from pathlib import Path

from tests.attack.areas import commands, model_files, processes, saved_files, values
from tests.attack.areas.outcome import Broke, Random, Refused

__all__ = ["AREAS", "attack"]

AREAS: dict[str, Callable[[Path, Random], None]] = {
    "transforms": saved_files.transforms,
    "moments": saved_files.moments,
    "results": saved_files.results,
    "training checkpoints": saved_files.training_checkpoints,
    "records of runs": saved_files.runs,
    "vectors": commands.vectors_files,
    "checkpoints": model_files.checkpoints,
    "configs": model_files.configs,
    "token ids": model_files.token_ids,
    "no files": model_files.no_files,
    "caches": saved_files.caches,
    "arrays": values.arrays,
    "sentences": values.sentences,
    "options": values.options,
    "names": commands.names,
    "overwriting": commands.overwriting,
    "evaluations": commands.evaluations,
    "full disks": commands.full_disks,
    "kills": processes.kills,
    "training kills": processes.training_kills,
    "encode kills": processes.encode_kills,
    "mining kills": processes.mining_kills,
    "forks": processes.forks,
}


def attack(area: str, folder: Path, rng: Random) -> bool:
    """Makes one attack; returns whether it was refused, rather than survived, and raises Broke if it broke through."""
    try:
        AREAS[area](folder, rng)
    except Refused:
        return True
    except Broke:
        raise
    except BaseException as error:
        raise Broke(f"{type(error).__name__}: {str(error)[:300]}") from error
    return False
