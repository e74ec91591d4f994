"""Mines the sentences of two folders of embeddings, block after block; a job that was stopped goes on.

Each block of sources is compared with all blocks of targets in one pass of products, which gives the nearest targets
of each source and, carried from block to block, the nearest sources of each target. After each block of sources, both
are written beside the output. Peak memory: two blocks of vectors, and 12 bytes a neighbour, three times where lists are
merged and pairs are chosen.

Several processes (``lsar_jax.processes``) take the blocks of sources in turn. Each carries the nearest sources among
its own blocks, in a file that says which these are, so that a job goes on with any number of processes. Process 0
merges the lists, chooses the pairs and writes them.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.checks import whole_number
from lsar_jax.embeddings import Embeddings
from lsar_jax.embeddings.job import changed_options, remove_work, share_of, work_folder
from lsar_jax.files import check_outputs, new_file, read_json, sha256, write_json
from lsar_jax.mesh import data_mesh
from lsar_jax.mining.pairs import Margin, Pairs, Retrieval, check_options, pairs_of_neighbours
from lsar_jax.processes import agreed, check_alike, is_first, share, wait_for_all
from lsar_jax.retrieval.search import Precision, nearest_both
from lsar_jax.transforms import Transform

__all__ = ["MiningProgress", "mine_folders", "notes_of"]

_log = logging.getLogger("lsar_jax")

_FORMAT = "lsar_jax mining 2"
# Pairs whose sentences are read at a time.
_WRITTEN = 262_144

# The cosines of the nearest rows of the other side, best first, and the numbers of these rows.
_Best = tuple[Float[np.ndarray, "_ _"], Int[np.ndarray, "_ _"]]


class MiningProgress(NamedTuple):
    """How far a job is, after each block of sources.

    Attributes:
      blocks: number of blocks of sources that are finished, as far as this process knows: those that were when it
        began, and its own.
      total: number of all.
      left: seconds left for the blocks of this process, at its rate.
    """

    blocks: int
    total: int
    left: float


def mine_folders(
    source: Embeddings,
    target: Embeddings,
    out: str | Path,
    *,
    k: int = 4,
    margin: Margin = "ratio",
    retrieval: Retrieval = "max",
    precision: Precision = "float32",
    threshold: float = 0.0,
    transform: Transform | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    block: int = 65_536,
    overwrite: bool = False,
    progress: Callable[[MiningProgress], None] | None = None,
) -> int:
    r"""Writes the pairs that ``mine`` finds among the distinct sentences of two folders, with their texts.

    If the process is stopped, the same call goes on and ends in the same bytes; until then, its work is in a folder
    beside the output, whose name ends in ``.job``. Several processes (``lsar_jax.processes``) share the work, and write
    the same bytes as one.

    Args:
      source: one collection.
      target: the other collection.
      out: the file to write, a line for each pair, best first. ``.jsonl``: objects with ``score``, ``source``,
        ``target``, ``source_id`` and ``target_id``. Any other: score, source and target, separated by tabs; a tab or
        line break in a sentence is written as a space.
      k: number of nearest neighbours in each direction.
      margin: as for ``mine``.
      retrieval: as for ``mine``.
      precision: as for ``mine``.
      threshold: the lowest score to write; only positive scores are written.
      transform: applied to the vectors as they are read.
      languages: language codes of the source and the target, for a transform that needs them.
      block: number of vectors of each side in memory.
      overwrite: whether to replace a file at ``out``.
      progress: called after each block of sources.

    Returns:
      The number of pairs written.

    Raises:
      FileExistsError: there is a file at ``out``, and ``overwrite`` is not given.
      ValueError: the folders are of different embedding spaces, an option is out of range, or the job was begun with
        other options or folders.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> import lsar_jax as lj
      >>> encoder = lj.load_encoder("bundled", layer=2)
      >>> with tempfile.TemporaryDirectory() as name:
      ...     text = {"en": "One, two, three.\nGood morning.\n", "de": "Eins, zwei, drei.\nGuten Morgen.\n"}
      ...     for code, lines in text.items():
      ...         _ = Path(name, f"{code}.txt").write_text(lines)
      ...         lj.embeddings.encode(encoder, [Path(name, f"{code}.txt")], Path(name, code))
      ...     sides = [lj.embeddings.open(Path(name, code)) for code in ("de", "en")]
      ...     lj.mining.mine_folders(*sides, Path(name, "pairs.tsv"), k=1)
      2
    """
    out = Path(out)
    check_options(margin, retrieval)
    block = whole_number("block", block, 1024, 1 << 24, "vectors")
    notes = notes_of(out)
    options = [out.name, _digest(source), _digest(target), k, margin, retrieval, precision, threshold, languages, block]
    check_alike("the options", repr([*options, None if transform is None else transform.digests]))
    # Process 0 decides for all, and removes the notes only when no other reads them.
    written = agreed(_written(out, notes) if is_first() else -1)
    if written >= 0:
        if is_first():
            remove_work(notes)
        return written
    check_outputs([out], [source.folder, target.folder], overwrite=overwrite)
    if not source.spec.same_space(target.spec):
        raise ValueError(
            f"{source.folder} and {target.folder} are of different embedding spaces: "
            f"{source.spec.difference(target.spec)}; encode both with one encoder"
        )
    sides = [_Side(side, transform, code, block) for side, code in zip((source, target), languages, strict=True)]
    least = min(len(rows) for side in sides for rows in side.blocks)
    k = whole_number("k", k, 1, least, "the distinct sentences of the smallest block")
    job = {
        "format": _FORMAT, "source": _digest(source), "target": _digest(target), "k": k, "precision": precision,
        "transform": [] if transform is None else list(transform.digests), "languages": list(languages), "block": block,
    }  # fmt: skip
    count = 0
    with work_folder(notes, out):
        if is_first():
            _begin(notes, job)
        wait_for_all("begun")
        _compare(sides[0], sides[1], k, precision, notes, progress or (lambda _: None))
        wait_for_all("compared")
        if is_first():
            pairs = pairs_of_neighbours(*_neighbours(sides[0], sides[1], k, notes), margin, retrieval)
            kept = pairs.score >= threshold
            count = int(kept.sum())
            _write(notes / f"pairs{out.suffix}", Pairs(*(part[kept] for part in pairs)), *sides)
            record = {"pairs": count, "sha256": sha256([notes / f"pairs{out.suffix}"])}
            write_json(notes / "written.json", record)
            (notes / f"pairs{out.suffix}").replace(out)
    return agreed(count)


def notes_of(out: Path) -> Path:
    """Returns the folder in which a job that writes ``out`` keeps its work until it is finished."""
    return out.with_name(f"{out.name}.job")


class _Side:
    """The distinct sentences of a folder."""

    def __init__(self, embeddings: Embeddings, transform: Transform | None, language: str | None, block: int) -> None:
        if transform is not None:
            embeddings.check_transform(transform)
        embeddings.check(shared=True)
        self.embeddings, self.transform, self.language = embeddings, transform, language
        self.rows = embeddings.distinct()
        if not len(self.rows):
            raise ValueError(f"{embeddings.folder} has only blank sentences")
        # Blocks of nearly one size: in a block with less than k rows, neighbours would be lost.
        self.blocks = np.array_split(self.rows, -(-len(self.rows) // block))

    def vectors(self) -> Iterator[Float[np.ndarray, "row dim"]]:
        """Yields the vectors of each block."""
        for number in range(len(self.blocks)):
            yield self.block(number)

    def block(self, number: int) -> Float[np.ndarray, "row dim"]:
        """Returns the vectors of a block."""
        x = self.embeddings.take(self.blocks[number]).astype(np.float32, copy=False)
        return x if self.transform is None else np.asarray(self.transform(x, self.language))


def _written(out: Path, notes: Path) -> int:
    """Returns the number of pairs that a job wrote which was stopped after it, or -1."""
    path = notes / "written.json"
    if not path.is_file() or not out.is_file():
        return -1
    record = read_json(path, dict, ("pairs", "sha256"))
    if sha256([out]) != record["sha256"]:
        return -1
    return int(record["pairs"])


def _begin(notes: Path, job: dict[str, Any]) -> None:
    """Records a job, or compares it with the one that was begun."""
    path = notes / "job.json"
    if path.is_file():
        begun = read_json(path, dict)
        if difference := changed_options(begun, job):
            raise ValueError(f"{notes} was begun with other options: {difference}; remove it, or write another file")
    write_json(path, job)


def _compare(
    source: _Side, target: _Side, k: int, precision: Precision, notes: Path, progress: Callable[[MiningProgress], None]
) -> None:
    """Compares this process's share of the blocks of sources with all targets, unless that was done before."""
    total = len(source.blocks)
    # What process 0 sees of the folder, because others may see it later.
    carried = agreed(_carried(notes))
    done = {block for blocks in carried.values() for block in blocks}
    blocks_left = share_of([block for block in range(total) if block not in done])
    path = notes / f"backward-{share()[0]:05d}.safetensors"
    backward, blocks = _read(path) if path.name in carried else (_nothing(len(target.rows)), [])
    starts = np.cumsum([0, *map(len, source.blocks)])
    places = np.cumsum([0, *map(len, target.blocks)])
    mesh = data_mesh() if jax.local_device_count() > 1 else None
    started = time.perf_counter()
    for finished, block in enumerate(blocks_left, 1):
        x = source.block(block)
        forward: _Best = _nothing(len(x))
        parts = []
        for place, y in zip(places, target.vectors(), strict=False):
            found, back = nearest_both(x, y, min(k, len(x), len(y)), precision=precision, mesh=mesh)
            forward = _merged(forward, _at(found, int(place)), k)
            before = backward[0][place : place + len(y)], backward[1][place : place + len(y)]
            parts.append(_merged(before, _at(back, int(starts[block])), k))
        backward = _joined(parts)
        blocks = [*blocks, block]
        _save(notes / f"forward-{block:05d}.safetensors", forward, [block])
        # After it, the block is finished.
        _save(path, backward, blocks)
        seconds = time.perf_counter() - started
        progress(MiningProgress(len(done) + finished, total, seconds / finished * (len(blocks_left) - finished)))


def _neighbours(source: _Side, target: _Side, k: int, notes: Path) -> tuple[_Best, _Best]:
    """Returns the nearest targets of each source, and the nearest sources of each target, that all processes found."""
    carried = _carried(notes)
    if sorted(block for blocks in carried.values() for block in blocks) != list(range(len(source.blocks))):
        raise ValueError(
            f"the notes in {notes} are of other blocks than those of this job: another job, or another process of it, "
            "has written there; remove the files backward-* in it, and run the command again"
        )
    backward = _nothing(len(target.rows))
    for name in carried:
        backward = _merged(backward, _read(notes / name)[0], k)
    parts = [_read(notes / f"forward-{block:05d}.safetensors")[0] for block in range(len(source.blocks))]
    return _joined(parts), backward


def _joined(parts: list[_Best]) -> _Best:
    cosines, rows = zip(*parts, strict=True)
    return np.concatenate(cosines), np.concatenate(rows)


def _at(found: tuple[Any, Any], first: int) -> _Best:
    """Returns the neighbours found in a block as those of all rows."""
    return np.asarray(found[0]), np.asarray(found[1], np.int64) + first


def _merged(best: _Best, other: _Best, k: int) -> _Best:
    """Returns the best k of two lists; ties go to the lower row."""
    cosines, rows = (np.concatenate(parts, axis=1) for parts in zip(best, other, strict=True))
    if not best[0].shape[1]:
        return cosines, rows
    order = np.lexsort((rows, -cosines), axis=1)[:, :k]
    return np.take_along_axis(cosines, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _nothing(rows: int) -> _Best:
    return np.zeros((rows, 0), np.float32), np.zeros((rows, 0), np.int64)


def _save(path: Path, best: _Best, blocks: list[int]) -> None:
    save_arrays(path, {"cosines": best[0], "rows": best[1]}, format=_FORMAT, header=blocks)


def _read(path: Path) -> tuple[_Best, list[int]]:
    """Returns neighbours, and the blocks of sources that they were found for or among."""
    with open_arrays(path, format=_FORMAT, what="neighbours") as file:
        return (file.read("cosines"), file.read("rows")), list(map(int, file.header))


def _carried(notes: Path) -> dict[str, list[int]]:
    """Returns the files of what processes found of the targets, and the blocks of sources that each of them is of."""
    found = {}
    for path in sorted(notes.glob("backward-*.safetensors")):
        with open_arrays(path, format=_FORMAT, what="neighbours") as file:
            found[path.name] = list(map(int, file.header))
    return found


def _write(out: Path, pairs: Pairs, source: _Side, target: _Side) -> None:
    as_json = out.suffix.lower() == ".jsonl"
    names = "score", "source", "target", "source_id", "target_id"
    broken = 0
    with new_file(out) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for start in range(0, len(pairs.score), _WRITTEN):
            part = slice(start, start + _WRITTEN)
            left = source.embeddings.sentences_of(source.rows[pairs.source[part]])
            right = target.embeddings.sentences_of(target.rows[pairs.target[part]])
            columns = left.texts, right.texts, left.ids, right.ids
            for score, *sentences in zip(pairs.score[part].tolist(), *columns, strict=True):
                if as_json:
                    row = dict(zip(names, [round(score, 6), *sentences], strict=True))
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    continue
                texts = [re.sub(r"[\t\r\n]", " ", text) for text in sentences[:2]]
                broken += texts != sentences[:2]
                file.write(f"{score:.6f}\t{texts[0]}\t{texts[1]}\n")
    if broken:
        advice = "which are written as spaces; a .jsonl file keeps them"
        _log.warning("%d of %d pairs have tabs or line breaks, %s", broken, len(pairs.score), advice)


def _digest(embeddings: Embeddings) -> str:
    return sha256([embeddings.folder / "manifest.json"])
