"""The sum of the moments that several processes have of their parts of a corpus."""

import json
from functools import reduce

import numpy as np

from lsar_jax.moments.moments import Moments
from lsar_jax.processes import gather
from lsar_jax.spec import EncoderSpec

__all__ = ["sum_over_processes"]


def sum_over_processes(moments: Moments | None) -> Moments:
    """Returns the moments of the vectors of all processes together; every process must call this.

    They are merged in float64 in the order of the processes, so that all of them get the same numbers. Of several
    languages, sum one after another, in the same order everywhere.

    Args:
      moments: the moments of this process's vectors; None if it has none.

    Raises:
      ConnectionError: another process has ended.
      ValueError: no process has vectors; or the widths or encoders differ, or only some kept second moments.

    Example:
      >>> x = np.arange(12.0).reshape(6, 2)
      >>> own = lj.Moments.from_embeddings(x[lj.processes.own_rows(len(x))])
      >>> lj.moments.sum_over_processes(own).mean.tolist()
      [5.0, 6.0]
    """
    parts = [_read(one) for one in gather(b"" if moments is None else _written(moments)) if one]
    if not parts:
        raise ValueError("there are no embeddings")
    return reduce(Moments.merge, parts)


def _written(moments: Moments) -> bytes:
    source = moments.source.to_dict() if moments.source else None
    header = json.dumps([moments.count, len(moments.mean), source]).encode()
    arrays = [moments.mean] if moments.scatter is None else [moments.mean, moments.scatter]
    return b"\n".join([header, b"".join(np.ascontiguousarray(one, np.float64).tobytes() for one in arrays)])


def _read(written: bytes) -> Moments:
    header, _, numbers = written.partition(b"\n")
    count, dim, source = json.loads(header)
    values = np.frombuffer(numbers, np.float64)
    scatter = values[dim:].reshape(dim, dim) if len(values) > dim else None
    return Moments(count, values[:dim], scatter, EncoderSpec.from_dict(source) if source else None)
