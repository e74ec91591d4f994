r"""Aligns an encoder on parallel text, and writes the aligned encoder as a folder.

    python -m train.word_pairs --data data/sentences --more data/bitext --out results/word-pairs
    python -m train.align --objective strong --words results/word-pairs --out results/strong
    python -m eval tatoeba --encoder results/strong/bundled-strong

``l2``, ``weak`` and ``strong`` bring the states of linked words together, as in Wu and Dredze (EMNLP 2020), and
``sentence`` does the same with the embeddings of sentences and their translations (``--data``, ``--more``), with the
loss of ``weak``, or with those of questions and their answers (``--questions``). ``linear`` leaves the encoder as it
is, and fits a matrix for each layer and language.

To resume a killed run, repeat the same command. ``sentence`` does not train on the pairs of each language that are
held out (``--held-out``), so that ``python -m eval bitext`` can test on them; for the other objectives,
``python -m train.word_pairs`` has set them apart.

The command writes ``config.json``, ``log.jsonl``, ``checkpoints/``, ``curves.png`` and ``trained.json``, which says how
the run ended. The aligned encoder, such as ``bundled-strong/``, is a folder for ``load_encoder``, transformers and
sentence-transformers; ``linear`` writes transforms instead, ``layer-0.safetensors`` and so on, for ``python -m eval
TASK --saved``. ``alignment.json`` beside either says from what encoder, and how, it was made.
"""

import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import jax
import numpy as np
import tyro

from lsar_jax import SentenceEncoder
from lsar_jax.checkpoints.export import check_exportable
from lsar_jax.checks import check_option, check_seeds
from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.encoders.options import prompt_tokens
from lsar_jax.files import unused, write_json
from lsar_jax.mesh import data_mesh, fetched, replicated
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.processes import is_first
from train.align.batches import ChunkSizes
from train.align.examples import Examples
from train.align.linear import MAP_FILES, LinearTraining, link_moments, write_maps
from train.align.options import AlignObjective, AlignOptions
from train.align.steps import EncoderObjective, EncoderSteps, StepOptions
from train.align.text import AlignText
from train.align.training import BatchPlan, EncoderTraining
from train.defaults import known
from train.encoder_parameters import EncoderParts, take_apart
from train.loop import LoopOptions, Trained, train
from train.run_folder import ALIGNMENT, claimed, flat_options
from train.training_task import TrainingTask, of_seed

__all__ = ["Align"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds")

# Number of steps per line of the log.
_LOG_EVERY = 10


@dataclass(frozen=True)
class Align:
    """Aligns an encoder.

    Attributes:
      objective: linear, l2, weak, strong or sentence.
      text: the text to align on.
      encoder: the encoder to align.
      layer: layer to align, above which no block is kept; by default, the last.
      options: the optimizer, the loss, and what trades memory for time.
      seed: random seed of the order of batches, dropout and the projector.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: output folder of this run.
    """

    objective: AlignObjective = "strong"
    text: tyro.conf.OmitArgPrefixes[AlignText] = field(default_factory=AlignText)
    encoder: tyro.conf.OmitArgPrefixes[EncoderOptions] = field(default_factory=lambda: EncoderOptions(max_length=96))
    layer: int | None = None
    options: tyro.conf.OmitArgPrefixes[AlignOptions] = field(default_factory=AlignOptions)
    seed: int = 42
    checkpoint_seconds: float = 600.0
    out: Path = Path("results/align")

    # What --help shows.
    essential = (
        "objective", "words", "data", "questions", "encoder", "layer", "steps", "batch", "learning_rate", "out"
    )  # fmt: skip

    def run(self) -> Trained:
        """Reads the text, trains, and writes the aligned encoder, the log and its figure."""
        linear = self.objective == "linear"
        # For linear, each process encodes on its own.
        devices = len(jax.local_devices() if linear else jax.devices())
        check_seeds([self.seed])
        self._check_given()
        self.text.check()
        text = self.text.pinned() if self.objective == "sentence" else self.text
        run = replace(self, options=self.options.complete(self.objective, devices), text=text)
        encoder = self.encoder.open_transformer(self.layer, "aligned")
        if not linear:
            # Found out now rather than after training.
            check_exportable(encoder)
        longest = min(encoder.tokenizer.max_length, encoder.model.config.longest)
        length = self.encoder.max_length
        check_option(length <= longest, f"at most {longest}, which {encoder.spec.id} takes", max_length=length)
        examples = text.examples(encoder, self.objective, self.encoder.max_length)
        training, validation = examples
        for name, part in (("train", training), ("validation", validation)):
            right = linear or self.options.batch <= len(part)
            check_option(right, f"at most the number of {name} pairs, {len(part)}", batch=self.options.batch)
        options = flat_options(run, _FREE) | {
            "encoder_spec": encoder.spec.to_dict(),
            "pairs": {code: [count, validation.counts[code]] for code, count in training.counts.items()},
            "text": [part.hash() for part in examples],
        }
        with claimed(self.out, self.encoder.encoder, options, ("moments/*/*", *run._outputs(encoder))):
            names, sides = ("training", "validation"), "of" if self.text.questions else "of English and"
            sizes = [f"{len(part)} {name} pairs" for name, part in zip(names, examples, strict=True)]
            console.print(f"{self.objective}: {' and '.join(sizes)}, {sides} {', '.join(training.codes)}")
            chunks = ChunkSizes(known(run.options.chunk_tokens), self.encoder.max_length, devices)
            plan = BatchPlan(run.options, chunks, encoder.tokenizer.pad_id, self.seed)
            return (run._fit_maps if linear else run._train_encoder)(encoder, examples, plan)

    def _check_given(self) -> None:
        """Raises ValueError if an option is given that the objective does not read."""
        given, usual = (vars(options.text) | vars(options.options) for options in (self, Align()))
        text, unread = self.text.reads(self.objective)
        not_of_it = {"linear": ("stay_close", "language_penalty"), "sentence": ("beta",)}
        unread += not_of_it.get(self.objective, ("beta", "language_penalty"))
        limit = f"left out: --objective {self.objective} does not read it; its text is {text}"
        for name in unread:
            check_option(given[name] == usual[name], limit, **{name: given[name]})

    def _train_encoder(self, encoder: SentenceEncoder, examples: tuple[Examples, Examples], plan: BatchPlan) -> Trained:
        options, mesh = self.options, data_mesh(jax.devices())
        sentence = self.objective == "sentence"
        projection = encoder.projection if sentence else None
        apart = take_apart(EncoderParts(encoder.model, projection), options.freeze_words)
        step = StepOptions(
            objective=cast(EncoderObjective, self.objective), layer=encoder.spec.layer, pooling=encoder.pooling,
            specials=encoder.tokenizer.specials, options=options, languages=1 + len(examples[0].codes), dim=encoder.dim,
            prompt=0 if encoder.include_prompt else prompt_tokens(encoder.prompt, encoder.tokenizer),
        )  # fmt: skip
        programs = EncoderSteps(apart, step, plan.schedule(), mesh)
        task = EncoderTraining(programs, apart[1], examples, plan)
        trained = self._loop(task, encoder)
        last = of_seed(trained.last, 0)
        if is_first():
            # On the devices of this process, if it trained with others.
            last = last if jax.process_count() == 1 else jax.device_put(fetched(last), replicated(encoder.mesh))
            parts = apart[0].filled({**last, **apart[2]})
            self._write_encoder(encoder, parts if sentence else parts._replace(projection=encoder.projection))
            self._end(trained, trained.position.best[0], "final")
        return trained

    def _fit_maps(self, encoder: SentenceEncoder, examples: tuple[Examples, Examples], plan: BatchPlan) -> Trained:
        training, validation = (
            link_moments(encoder, part, plan, self.out / "moments" / name)
            for name, part in zip(("training", "validation"), examples, strict=True)
        )
        task = LinearTraining(training, validation, plan)
        trained = self._loop(task, encoder)
        if is_first():
            write_maps(task, trained.last["maps"][0], encoder.spec, self.out)
            self._describe(encoder, self.out)
            self._end(trained, float(np.mean(trained.last["lowest"])), "best of each layer and language")
        return trained

    def _loop(self, task: TrainingTask, encoder: SentenceEncoder) -> Trained:
        every = known(self.options.validate_every)
        epochs = -(-known(self.options.steps) // every)
        # It never ends early: the patience is as many validations as there are.
        loop = LoopOptions(epochs, epochs, self.checkpoint_seconds)
        title = f"{self.objective}, {encoder.spec.id}, layer {encoder.spec.layer}"
        return train(task, loop, self.out, title, every if self.objective == "linear" else _LOG_EVERY)

    def _outputs(self, encoder: SentenceEncoder) -> tuple[str, ...]:
        """Returns patterns of what is written; results name an encoder by its folder."""
        if self.objective == "linear":
            return MAP_FILES
        return (f"{encoder.spec.id.rpartition('/')[2]}-{self.objective}",)

    def _write_encoder(self, encoder: SentenceEncoder, parts: EncoderParts) -> None:
        aligned = replace(
            encoder, model=parts.model, projection=parts.projection, spec=encoder.spec.raw(), applied=frozenset()
        )
        folder = self.out / self._outputs(encoder)[0]
        new = unused(folder)
        aligned.to_sentence_transformers(new)
        # If this run wrote the folder before, others may have put files into it since.
        shutil.copytree(new, folder, copy_function=os.replace, dirs_exist_ok=True)
        shutil.rmtree(new)
        self._describe(encoder, folder)

    def _describe(self, encoder: SentenceEncoder, folder: Path) -> None:
        """Records what was aligned, for tables that name it: train.finetune copies it."""
        text = " and ".join(map(str, self.text.places(self.objective)))
        record = {"objective": self.objective, "encoder": encoder.spec.id, "text": text}
        record |= {name: getattr(self.options, name) for name in ("steps", "batch", "learning_rate")}
        write_json(folder / ALIGNMENT, record)

    def _end(self, trained: Trained, validation: float, written: str) -> None:
        """Records and prints how the run ended."""
        position = trained.position
        record = {
            "objective": self.objective,
            "steps": position.taken,
            "validation": validation,
            "best_step": min((position.best_epoch[0] + 1) * known(self.options.validate_every), position.taken),
            "stopped_by": "steps",
            "written": written,
        }
        write_json(self.out / "trained.json", record)
        speed = f", {trained.steps_per_second:.2f} steps/s including validation" if trained.steps_per_second else ""
        console.print(
            f"{position.taken} steps{speed}; best validation {position.best[0]:.4f} at step {record['best_step']}; "
            f"wrote {self.out}"
        )


# Runs the command with these arguments; returns its exit status.
main = partial(run, Align, "python -m train.align", description=__doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
