"""Text through an encoder: tokenized ahead of the device, packed into batches, run on the mesh, and collected.

Only a bounded number of sentences, and what the collector keeps, are in memory.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from lsar_jax.arrays import log
from lsar_jax.encoders.collectors import COLLECTIVES, Collector
from lsar_jax.encoders.encode_report import EncodeReport
from lsar_jax.encoders.input_stream import read_batches
from lsar_jax.encoders.options import EncodeCall, language_rows, ordered, prompt_tokens
from lsar_jax.encoders.program import Program, Weights, compiled
from lsar_jax.encoders.progress import count_meter
from lsar_jax.languages import AUTO
from lsar_jax.mesh import shares, split
from lsar_jax.models.laser import Laser
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.packing import BatchSizes, PackedBatch, batch

__all__ = ["batch_sizes", "compile_programs", "encode_into", "program_of", "run_batch"]


def encode_into(
    encoder: Any,
    collect: Callable[[Sequence[EncoderSpec], int | None], Collector],
    sentences: str | Iterable[str],
    call: EncodeCall,
) -> tuple[Any, EncodeReport]:
    """Encodes text into the collector that ``collect`` makes; without ``layers``, the result is of one layer."""
    started = time.perf_counter()
    texts, transform = ordered(sentences), encoder.transform
    total = len(texts) if isinstance(texts, Sequence | np.ndarray) else None
    if transform is not None and transform.source and call.prompt not in {encoder.prompt, *encoder._warned}:
        encoder._warned.add(call.prompt)
        log.warning("the transform was fitted with the prompt %r, but %r is used", encoder.prompt, call.prompt)
    program = program_of(encoder, call)
    gather = collect([replace(encoder.spec, layer=layer, prompt=call.prompt) for layer in call.layers], total)

    report = EncodeReport(call.max_length)
    batches = read_batches(
        texts, total, call, rows=partial(language_rows, encoder), tokenizer=encoder.tokenizer,
        sizes=batch_sizes(encoder, call), report=report,
    )  # fmt: skip
    # Closed as soon as something fails, so that the tokenizer's thread ends.
    with closing(batches), count_meter(call.show_progress, total) as advance:
        for part in batches:
            embedded, unknown = run_batch(encoder, program, part)
            gather.add(part, embedded)
            report.add(part, unknown)
            advance(len(part.sentences))
    result = gather.result(report.sentences)
    report.count_unknown()
    report.seconds = time.perf_counter() - started
    return result[0] if call.one_layer else result, report


def compile_programs(encoder: Any, call: EncodeCall) -> int:
    """Compiles the programs of a call, and returns their number."""
    shapes = batch_sizes(encoder, call).shapes(call.max_length)
    for shape in shapes:
        jax.block_until_ready(run_batch(encoder, program_of(encoder, call), batch([], shape, shares(encoder.mesh))))
    return len(shapes)


def program_of(encoder: Any, call: EncodeCall) -> Program:
    """The program of a call."""
    auto = isinstance(call.language, str) and call.language == AUTO
    unpooled = 0 if encoder.include_prompt else prompt_tokens(call.prompt, encoder.tokenizer)
    return Program(encoder.pooling, encoder.tokenizer.specials, call.layers, call.normalize, auto, unpooled)


def run_batch(encoder: Any, program: Program, part: PackedBatch) -> tuple[jax.Array, jax.Array | None]:
    """Starts the program on a batch; arguments and result as of ``program.forward``."""
    steps = 0 if encoder.transform is None else len(encoder.transform.steps)
    arrays = part.ids(encoder.tokenizer.pad_id), part.lengths, part.places
    languages = tuple(part.languages((encoder.languages is not None) + steps))
    inputs = (*arrays, languages)
    if encoder.mesh.size > 1:
        inputs = jax.device_put(inputs, split(encoder.mesh))
    arguments = program, Weights.of(encoder.model), encoder.projection, encoder._on_device, *inputs
    run = compiled(encoder.mesh, isinstance(encoder.model, Laser))
    if encoder.mesh.size == shares(encoder.mesh):
        return run(*arguments)
    # Where weights are split, the devices wait for each other, so that one batch must end before another starts.
    with COLLECTIVES:
        return jax.block_until_ready(run(*arguments))


def batch_sizes(encoder: Any, call: EncodeCall) -> BatchSizes:
    """The numbers of rows of the batches of a call."""
    return BatchSizes.for_devices(list(encoder.mesh.devices.flat)[: shares(encoder.mesh)], call.token_budget)
