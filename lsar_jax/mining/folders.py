"""Mines the sentences of two folders of embeddings, block after block; a job that was stopped goes on.

Each block of sources is compared with all blocks of targets, which gives the nearest targets of each source and,
carried from block to block, the nearest sources of each target. After each block, both are written beside the output,
in files whose format has their name and the digest of the job, so that other blocks' or jobs' are refused.
Before the output, its digest is recorded, so that a job that is killed while its work is deleted can end. Memory holds
two blocks of vectors and, for each neighbour of a sentence, 8 bytes; while pairs are chosen, twice as many and 90 for
each sentence.

A share of a job (``MiningOptions.shard``) has every n-th block of sources. It carries the nearest sources among its
blocks, in a file that lists them. A call without shares merges the lists, chooses the pairs and writes them.
"""

import json
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from lsar_jax.arrays import log
from lsar_jax.checks import check_flags, whole_number
from lsar_jax.corpora.row_files import JSON_LINES
from lsar_jax.embeddings import Embeddings
from lsar_jax.embeddings.job import RECORD, Progress, versions, work_folder
from lsar_jax.embeddings.job_shares import WHOLE, finish_share
from lsar_jax.embeddings.manifest import FILE_NAME
from lsar_jax.encoders.progress import Meter
from lsar_jax.files import new_file, sha256, text_sha256, write_json
from lsar_jax.mesh import data_mesh
from lsar_jax.mining.job import MiningOptions, begin, check_paths, neighbour_options, notes_of, work_files
from lsar_jax.mining.known_pairs import KnownPairs, known_rows, known_threshold
from lsar_jax.mining.neighbour_files import Nearest, NeighbourFiles, forward_name, merged, no_neighbours
from lsar_jax.mining.pair_files import flat, pair_line
from lsar_jax.mining.pairs import Pairs, first_pairs, pairs_of_neighbours
from lsar_jax.mining.side import Side
from lsar_jax.mining.thresholds import threshold_of
from lsar_jax.retrieval.calibration import Calibration
from lsar_jax.retrieval.search import csls_scores, local_scale, nearest, nearest_both, scaled_sides
from lsar_jax.spec import same_source

__all__ = ["mine_folders"]


_DEFAULTS = MiningOptions()
# Pairs whose sentences are read at a time.
_PAIRS = 262_144


def mine_folders(
    source: Embeddings,
    target: Embeddings,
    out: str | Path,
    options: MiningOptions = _DEFAULTS,
    *,
    overwrite: bool = False,
    show_progress: bool = False,
    progress: Callable[[Progress], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> int:
    r"""Writes the pairs that ``mine`` finds among the distinct sentences of two folders, with their texts.

    If the process is stopped, the same call goes on and ends in the same bytes, as long as its work is in a folder
    beside the output, whose name ends in ``.job``. With ``options.shard`` a process compares every n-th block of
    sources, and a call without it writes the pairs once all shares are done.

    Args:
      source: one collection.
      target: the other collection.
      out: the file to write, a line for each pair, best first: in ``.jsonl`` and the like, an object with ``score``,
        ``source``, ``target``, ``source_id`` and ``target_id``; else score, source and target, separated by tabs, with
        a space for a tab or line break of a sentence.
      options: what the pairs depend on.
      overwrite: whether to replace a file at ``out``.
      show_progress: whether to show the share that is done and the time left, as ``encode`` of an encoder does.
      progress: called after each block of sources.
      report: called with a line that says how known pairs chose the threshold.

    Returns:
      The number of pairs written, 0 by a share.

    Raises:
      FileExistsError: there is a file at ``out``, and ``overwrite`` is not given.
      ValueError: the folders are the same or of different embedding spaces, ``k`` exceeds the smallest block, the
        transform is applied already, the job was begun with other options or folders, its folder holds something else,
        no known pair is in the folders, no threshold reaches the precision, or a calibration is of another transform
        or has too few lines. A job that ended so goes on with another threshold.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> encoder = lj.load_encoder("bundled", layer=2)
      >>> with tempfile.TemporaryDirectory() as name:
      ...     text = {"en": "One, two, three.\nGood morning.\n", "de": "Eins, zwei, drei.\nGuten Morgen.\n"}
      ...     for code, lines in text.items():
      ...         _ = Path(name, f"{code}.txt").write_text(lines)
      ...         lj.embeddings.encode(encoder, [Path(name, f"{code}.txt")], Path(name, code))
      ...     sides = [lj.embeddings.open(Path(name, code)) for code in ("de", "en")]
      ...     lj.mining.mine_folders(*sides, Path(name, "pairs.tsv"), lj.mining.MiningOptions(k=1))
      2
    """
    out = Path(out)
    check_flags(overwrite=overwrite, show_progress=show_progress)
    notes = notes_of(out)
    record = {name: sha256([x.folder / FILE_NAME]) for name, x in (("source", source), ("target", target))}
    record |= options.record | {"versions": versions(), "devices": jax.local_devices()[0].device_kind}
    check_paths(source.folder, target.folder, out, overwrite=overwrite)
    if record["source"] == record["target"]:
        raise ValueError(f"{source.folder} and {target.folder} hold the same; give the folders of two collections")
    same_source("the folders", {str(source.folder): source.spec, str(target.folder): target.spec})
    sides = zip((source, target), options.languages, strict=True)
    left, right = (Side(*side, options.transform, options.block, options.shard) for side in sides)
    least = min(len(rows) for side in (left, right) for rows in side.blocks)
    name = "the neighbours of CSLS" if options.neighbours > options.k else "k"
    whole_number(name, options.neighbours, 1, least, "the distinct sentences of the smallest block")
    known = known_rows(options.threshold, left, right)
    with work_folder(notes, out, work_files(notes, source.folder, target.folder), options.shard):
        if (written := begin(notes, out, record, options.shard != WHOLE)) is not None:
            return written
        files = NeighbourFiles(notes, f"lsar_jax mining 6, job {text_sha256(json.dumps(neighbour_options(record)))}")
        with Meter(show_progress) as meter:
            _compare(left, right, files, options, meter, progress)
        if options.shard != WHOLE:
            finish_share(notes, options.shard, record)
            return 0
        pairs = _pairs(left, right, files, options)
        lowest = _lowest(pairs, options, known, len(right.rows), report or log.info)
        return _write(out, pairs, lowest, left, right, record)


def _compare(
    source: Side,
    target: Side,
    files: NeighbourFiles,
    options: MiningOptions,
    meter: Meter,
    progress: Callable[[Progress], None] | None,
) -> None:
    """Compares the blocks of sources of a share with all targets, unless that was done before."""
    total, k, bank, shard = len(source.blocks), options.neighbours, options.bank, options.shard
    carried = files.carried()
    done = {block for blocks in carried.values() for block in blocks}
    remaining = [block for block in range(shard[0], total, shard[1]) if block not in done]
    name = f"backward-{shard[0]:05d}.safetensors"
    backward = files.read(name) if name in carried else no_neighbours(len(target.rows) if bank is None else 0, k)
    blocks = carried.get(name, [])
    mesh = data_mesh() if jax.local_device_count() > 1 else None
    how: dict[str, Any] = {"precision": options.precision, "mesh": mesh}
    left = None
    for finished, block in enumerate(remaining):
        x = source.vectors(block)
        forward = no_neighbours(len(x), k)
        for number, (start, stop) in enumerate(pairwise(target.starts)):
            y = target.vectors(number)
            if bank is not None:
                targets = nearest(*scaled_sides(x, y, bank, **how), k, metric="dot", **how)
            else:
                targets, sources = nearest_both(x, y, k, **how)
                before = backward[0][start:stop], backward[1][start:stop]
                cosines, rows = merged(before, sources, source.starts[block])
                backward[0][start:stop], backward[1][start:stop] = cosines, rows
            forward = merged(forward, targets, start)
            # The other shares are about as far.
            compared = len(done) + shard[1] * (finished + (number + 1) / len(target.blocks))
            near = int(len(source.rows) * min(1.0, compared / total))
            left = meter(f"compared {near:,} of {len(source.rows):,} sources", compared, total)
        blocks = [*blocks, block]
        files.save(forward_name(block), forward, [block])
        # After it, the block is finished.
        files.save(name, backward, blocks)
        if progress is not None:
            count = len(done) + finished + 1
            progress(Progress(count, count / total, left))


def _pairs(source: Side, target: Side, files: NeighbourFiles, options: MiningOptions) -> Pairs:
    """The pairs by what all shares found."""
    forward, backward = _neighbours(source, files)
    if (bank := options.bank) is None:
        return pairs_of_neighbours(forward, backward)
    scale = np.concatenate([local_scale(target.vectors(number), bank) for number in range(len(target.blocks))])
    return first_pairs(forward[1][:, 0], csls_scores(forward[0], scale[forward[1]])[:, 0])


def _lowest(
    pairs: Pairs, options: MiningOptions, known: Int[np.ndarray, "_ 2"], targets: int, report: Callable[[str], None]
) -> float:
    """The lowest score to write."""
    if isinstance(options.threshold, KnownPairs):
        lowest, text = known_threshold(pairs, options.threshold, known)
        report(text)
        return lowest
    if isinstance(options.threshold, Calibration):
        return threshold_of(options.threshold, options.error, options.languages, targets)
    return float(options.threshold or 0)


def _neighbours(source: Side, files: NeighbourFiles) -> tuple[Nearest, Nearest]:
    """The nearest targets of each source, and the nearest sources of each target, that all shares found."""
    carried = files.carried()
    numbers = range(len(source.blocks))
    if sorted(block for blocks in carried.values() for block in blocks) != list(numbers):
        raise ValueError(
            f"the notes in {files.folder} are of other blocks than those of this job: another process has written "
            "there; remove the files backward-* in it, and run the command again"
        )
    backward = reduce(merged, map(files.read, carried))
    cosines, rows = zip(*(files.read(forward_name(block)) for block in numbers), strict=True)
    return (np.concatenate(cosines), np.concatenate(rows)), backward


def _write(out: Path, pairs: Pairs, least: float, source: Side, target: Side, record: Mapping[str, Any]) -> int:
    """Writes the pairs that score at least ``least`` with their sentences, and returns how many they are.

    Before the file appears, its digest is in the record of the job.
    """
    pairs = Pairs(*(part[pairs.score >= least] for part in pairs))
    as_json = out.suffix.lower() in JSON_LINES
    broken = 0
    with new_file(out) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for start in range(0, len(pairs.score), _PAIRS):
                part = slice(start, start + _PAIRS)
                left = source.embeddings.sentences_of(source.rows[pairs.source[part]])
                right = target.embeddings.sentences_of(target.rows[pairs.target[part]])
                columns = pairs.score[part].tolist(), left.texts, right.texts, left.ids, right.ids
                for score, one, other, source_id, target_id in zip(*columns, strict=True):
                    broken += not as_json and (flat(one), flat(other)) != (one, other)
                    file.write(pair_line(as_json, score, one, other, source_id=source_id, target_id=target_id))
        write_json(
            notes_of(out) / RECORD, {**record, "written": {str(out): sha256([partial])}, "pairs": len(pairs.score)}
        )
    if broken:
        advice = "which are written as spaces; a .jsonl file keeps them"
        log.warning("%d of %d pairs have tabs or line breaks, %s", broken, len(pairs.score), advice)
    return len(pairs.score)
