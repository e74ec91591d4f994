"""``lsar-jax merge``: ends a job that ran in shares, each a process with ``--shard I/N``."""

from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from lsar_jax import embeddings
from lsar_jax.cli.encode import summary
from lsar_jax.console.command_line import parse
from lsar_jax.embeddings.job_shares import ARGUMENTS, found_by_shares, share_count
from lsar_jax.files import read_json
from lsar_jax.options.texts import is_encoded

__all__ = ["Merge"]


@dataclass(frozen=True)
class Merge:
    """Ends a job that ran in shares (--shard I/N), once all are done, with the result of one process.

    Attributes:
      out: what the job writes: the folder of encode, also of a folder of text, or the file of fit, apply or mine.
    """

    out: tyro.conf.Positional[Path]

    def run(self) -> None:
        """Ends the job, and prints what it wrote."""
        # Of a folder of text, a folder for each language.
        folders = [folder for folder in (self.out, *sorted(self.out.glob("*"))) if is_encoded(folder)]
        for folder in folders:
            embeddings.merge(folder)
            print(summary(folder))
        if folders:
            return
        beside = self.out.absolute().with_name(f"{self.out.absolute().name}.job")
        if share_count(beside) == 1:
            raise ValueError(f"{self.out} is finished, or was not begun in shares: {beside} has none")
        if not (path := beside / ARGUMENTS).is_file():
            found_by_shares(beside, self.out)
            advice = "run one share again, or, from Python, mine_folders without a shard"
            raise ValueError(f"{path}, the command line of a share, is missing; {advice}")
        command = read_json(path, dict, ("arguments", "folder"))
        with chdir(command["folder"]):
            self._end(*command["arguments"])

    def _end(self, name: str, *words: str) -> None:
        """Runs the command of the shares once more, for the whole job."""
        from lsar_jax.cli.apply import Apply
        from lsar_jax.cli.fit import FitCommands
        from lsar_jax.cli.mine import Mine

        kinds = {"apply": Apply, "fit": FitCommands, "mine": Mine}
        replace(parse(kinds[name], f"lsar-jax {name}", words), shard="0/1").run()
