"""Repositories of the Hugging Face Hub, downloaded with a timeout or read from the local cache.

With ``HF_HUB_OFFLINE=1``, or if the Hub does not answer within ten seconds, the files that ``huggingface_hub`` has
cached are used. A refusal (no such repository or revision, no permission) raises an error at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lsar_jax.arrays import log

__all__ = ["PATIENCE", "Repository", "check_no_revision"]

# Seconds to wait for the Hub to answer.
PATIENCE = 10.0


def check_no_revision(revision: str | None, name: object, kind: str = "a folder") -> None:
    """Raises ValueError if a revision is given for what is not on the Hub."""
    if revision:
        raise ValueError(f"revision {revision!r} applies to Hub ids only, and {name} is {kind}; leave it out")


@dataclass
class Repository:
    """A repository on the Hub.

    Attributes:
      id: the Hub id, such as ``intfloat/multilingual-e5-small``.
      revision: commit, tag or branch; None for the newest.
      kind: ``model`` or ``dataset``.
      include: pattern of the dataset files that errors advise to download.
      silence: the error if the Hub did not answer.
    """

    id: str
    revision: str | None
    kind: Literal["model", "dataset"]
    include: str = "*"
    silence: Exception | None = None

    def info(self) -> Any | None:
        """Returns the Hub's description of the repository, or None if the Hub is offline or does not answer.

        Raises FileNotFoundError if the Hub refuses the request.
        """
        from huggingface_hub import HfApi, constants

        if constants.HF_HUB_OFFLINE:
            return None
        ask = HfApi().model_info if self.kind == "model" else HfApi().dataset_info
        try:
            # The client's own downloads start with the same request, but without a timeout.
            return ask(self.id, revision=self.revision, timeout=PATIENCE)
        except Exception as error:  # many types, including those of the network library
            status = getattr(getattr(error, "response", None), "status_code", None)
            if status is not None and status < 500:
                raise self.unavailable(error) from error
            self.silence = error
            return None

    def download(self, patterns: Sequence[str]) -> Path:
        """Returns a folder of the files that match ``patterns``, downloaded or cached, or raises FileNotFoundError."""
        # After an answer, the cache is not used: it may hold an incomplete copy from this very download.
        return self.cached(patterns) if self.info() is None else self._snapshot(patterns, etag_timeout=PATIENCE)

    def cached(self, patterns: Sequence[str] | None = None) -> Path:
        """Returns the folder of the cached files, named after their commit, or raises FileNotFoundError."""
        folder = self._snapshot(patterns, local_files_only=True)
        if self.silence is not None:
            kind = type(self.silence).__name__
            log.warning("the Hub did not answer (%s); using the files cached in %s", kind, folder)
        return folder

    def _snapshot(self, patterns: Sequence[str] | None, **options: Any) -> Path:
        from huggingface_hub import snapshot_download

        options |= {"repo_type": self.kind, "revision": self.revision, "allow_patterns": patterns and list(patterns)}
        try:
            return Path(snapshot_download(self.id, **options))
        except Exception as error:
            raise self.unavailable(self.silence or error) from error

    def fetch_first_bytes(self, commit: str, name: str) -> None:
        """Reads the first bytes of a file from where it is stored; an error if they do not come within ``PATIENCE``."""
        from huggingface_hub import constants, get_session, hf_hub_url
        from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

        url = hf_hub_url(self.id, name, repo_type=self.kind, revision=commit, endpoint=constants.ENDPOINT)
        headers = {**build_hf_headers(), "range": "bytes=0-3"}
        with get_session().stream("GET", url, headers=headers, timeout=PATIENCE, follow_redirects=True) as response:
            hf_raise_for_status(response)

    def unavailable(self, reason: Exception) -> FileNotFoundError:
        """The error that says why the repository cannot be read, and how to download it elsewhere."""
        first = (str(reason).strip().splitlines() or [""])[0]
        at = f" --revision {self.revision}" if self.revision else ""
        if self.kind == "model":
            verb, command, then = "downloaded", f"hf download {self.id}{at}", "pass the folder that it prints"
        else:
            verb = "read"
            command = f"hf download {self.id} --repo-type dataset{at} --include '{self.include}' --local-dir {self.id}"
            then = f"copy that folder to {self.id} here, or pass its path in place of the id"
        return FileNotFoundError(
            f"{self.id!r} is not a folder and cannot be {verb} from the Hugging Face Hub "
            f"({type(reason).__name__}: {first}). On a machine that can reach the Hub, run `{command}` and {then}"
        )
