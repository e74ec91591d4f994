"""The option of commands that many processes share, each alone: ``--shard I/N``."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from lsar_jax.embeddings.job_shares import ARGUMENTS, WHOLE, check_share
from lsar_jax.files import write_json

__all__ = ["ShardOption"]

# Slurm's numbers of a task of an array.
_TASK = ("ID", "MIN", "STEP", "COUNT")


@dataclass(frozen=True, kw_only=True)
class ShardOption:
    """A share of a job.

    Attributes:
      shard: I/N, such as 0/4: the share I of N of the job, which any process does alone; lsar-jax merge OUT ends it. By
        default all, but in a Slurm array, or an indexed Job of Kubernetes that sets JOB_COMPLETIONS, the task's share.
    """

    shard: str | None = None
    # The command line, which a merge goes on with.
    arguments: tyro.conf.Suppress[tuple[str, ...]] = ()

    def place(self) -> tuple[int, int]:
        """The number of the share, and the number of shares; a scheduler's are printed."""
        text, env = self.shard, os.environ
        if text is None and "SLURM_ARRAY_TASK_ID" in env:
            task, first, step, count = (env.get(f"SLURM_ARRAY_TASK_{name}", "") for name in _TASK)
            if not (task.isdigit() and first.isdigit() and step.isdigit() and int(step)):
                raise ValueError(f"SLURM_ARRAY_TASK_ID is {task!r}, _MIN {first!r}, _STEP {step!r}; give --shard I/N")
            text = f"{(int(task) - int(first)) // int(step)}/{count}"
        elif text is None and "JOB_COMPLETION_INDEX" in env:
            text = f"{env['JOB_COMPLETION_INDEX']}/{env.get('JOB_COMPLETIONS', '')}"
        if text is None:
            return WHOLE
        if not (found := re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)):
            names = "SLURM_ARRAY_TASK_COUNT or, in Kubernetes, JOB_COMPLETIONS"
            raise ValueError(f"--shard {text} is not I/N, such as 0/4; a scheduler's N is {names}")
        if self.shard is None:
            print(f"--shard {text}, by the scheduler; --shard 0/1 is the whole job", file=sys.stderr, flush=True)
        return check_share((int(found[1]), int(found[2])))

    def finish(self, out: Path, shard: tuple[int, int], work: Path) -> None:
        """Leaves the command line to a merge, and says that a share is done."""
        write_json(work / ARGUMENTS, {"arguments": self.arguments, "folder": str(Path.cwd())})
        print(f"{out}: share {shard[0]}/{shard[1]} is done; when all are, run lsar-jax merge {out}")
