r"""Aligns an encoder on parallel text, and writes the aligned encoder as a folder.

    python -m train.word_pairs --data data/sentences --more data/bitext --out results/word-pairs
    python -m train.align --objective strong --words results/word-pairs --out results/strong
    python -m eval tatoeba --encoder results/strong/bundled-strong

``l2``, ``weak`` and ``strong`` bring the states of linked words together, as in Wu and Dredze (EMNLP 2020), and
``sentence`` does the same with the embeddings of sentences and their translations (``--data``, ``--more``), with the
loss of ``weak``. ``linear`` leaves the encoder as it is, and fits a matrix for each layer and language.

To resume a killed run, repeat the same command. ``sentence`` does not train on the pairs of each language that are
held out (``--held-out``), so that ``python -m eval bitext`` can test on them; for the other objectives,
``python -m train.word_pairs`` has set them apart.

The command writes ``config.json``, ``log.jsonl``, ``checkpoints/``, ``curves.png`` and ``trained.json``, which says how
the run ended. The aligned encoder, such as ``bundled-strong/``, is a folder for ``load_encoder``, transformers and
sentence-transformers; ``linear`` writes transforms instead, ``layer-0.safetensors`` and so on, for ``python -m eval
TASK --saved``.
"""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import jax
import numpy as np
import optax
import tyro

from lsar_jax import SentenceEncoder
from lsar_jax.cli.console import Seldom, console
from lsar_jax.cli.embed import EncoderChoice
from lsar_jax.cli.option_checks import at_least, known
from lsar_jax.encoders.options import check_length, check_prompt
from lsar_jax.files import write_json
from lsar_jax.mesh import data_mesh, fetched, replicated
from lsar_jax.processes import is_first, wait_for_all
from train.align.batches import ChunkSizes
from train.align.examples import Examples, Parts, sentence_examples, word_examples
from train.align.linear import MAP_FILES, LinearTraining, link_moments, write_maps
from train.align.options import READ_BY, AlignLoss, AlignMemory, AlignOptimizer, Objective
from train.align.steps import EncoderSteps, StepOptions
from train.align.training import BatchPlan, EncoderTraining
from train.curves import draw_curves
from train.encoder_parameters import EncoderParts, put_together, take_apart
from train.loop import LoopOptions, Trained, Trainee, of_seed, train
from train.run_folder import claim, flat_options, locked
from train.schedule import linear_schedule
from train.text import TextOptions
from train.word_pairs.aligned_files import PARTS, read_aligned

__all__ = ["Align"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds", "log_every", "patience", "keep")


@dataclass(frozen=True)
class Align:
    """Aligns an encoder.

    Attributes:
      objective: linear, l2, weak, strong or sentence.
      words: folder of word-aligned text, from python -m train.word_pairs, for all objectives but sentence.
      text: the text of the objective sentence.
      encoder: the encoder to align.
      layer: layer to align, above which no block is kept; by default, the last.
      optimizer: the optimizer.
      loss: the loss.
      memory: what is computed again.
      seed: random seed of the order of batches, dropout and the projector.
      keep: write the encoder as it is at the end, or as it was at its best validation.
      log_every: number of steps per line of the log.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: output folder of this run.
    """

    objective: Objective = "strong"
    words: Path = Path("results/word-pairs")
    text: tyro.conf.OmitArgPrefixes[TextOptions] = field(
        default_factory=lambda: TextOptions(data=Path("data/sentences"))
    )
    encoder: tyro.conf.OmitArgPrefixes[EncoderChoice] = field(default_factory=lambda: EncoderChoice(max_length=96))
    layer: int | None = None
    optimizer: tyro.conf.OmitArgPrefixes[AlignOptimizer] = field(default_factory=AlignOptimizer)
    loss: tyro.conf.OmitArgPrefixes[AlignLoss] = field(default_factory=AlignLoss)
    memory: tyro.conf.OmitArgPrefixes[AlignMemory] = field(default_factory=AlignMemory)
    seed: int = 42
    keep: Literal["final", "best"] = "final"
    log_every: int = 10
    checkpoint_seconds: float = 600.0
    out: Path = Path("results/align")

    def run(self) -> Trained:
        """Reads the text, trains, and writes the aligned encoder, the log and its figure.

        Raises:
          FileNotFoundError: the data do not exist.
          ValueError: the options or data are invalid, the folder belongs to another run, or a loss is not finite.
        """
        run = self._complete()
        run._check()
        encoder = run._open()
        examples = run._examples(encoder)
        with locked(run.out, run.encoder.encoder):
            return run._train(encoder, examples)

    def _complete(self) -> Self:
        run = replace(
            self,
            optimizer=self.optimizer.complete(self.objective),
            loss=self.loss.complete(self.objective),
            memory=self.memory.complete(),
        )
        if self.objective != "sentence":
            return run
        return replace(run, text=self.text.pinned())

    def _check(self) -> None:
        self.optimizer.check(len(jax.local_devices() if self.objective == "linear" else jax.devices()))
        self.loss.check()
        self.memory.check()
        self.text.check()
        self._check_unused()
        at_least(1, log_every=self.log_every)
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"--seed is {self.seed}; it must be from 0 to {2**32 - 1}")

    def _check_unused(self) -> None:
        """Raises ValueError if an option is given that another objective reads."""
        plain = replace(
            Align(), optimizer=AlignOptimizer().complete(self.objective), loss=AlignLoss().complete(self.objective)
        )
        given, usual = (
            {**vars(one.optimizer), **vars(one.loss), **vars(one.memory), "keep": one.keep} for one in (self, plain)
        )
        for name, readers in READ_BY.items():
            if self.objective not in readers and given[name] != usual[name]:
                raise ValueError(
                    f"--{name.replace('_', '-')} is {given[name]}, but --objective {self.objective} does not read it; "
                    f"only {', '.join(readers)} {'do' if len(readers) > 1 else 'does'}"
                )
        others = {"words": (self.words, plain.words)}
        if self.objective != "sentence":
            texts = [vars(one.text) for one in (self, plain)]
            others = {name: (texts[0][name], texts[1][name]) for name in texts[0] if name != "languages"}
        for name, (value, usual_value) in others.items():
            if value != usual_value:
                raise ValueError(
                    f"--{name.replace('_', '-')} is given, but --objective {self.objective} reads "
                    + ("sentences (--data, --more)" if self.objective == "sentence" else "word pairs (--words)")
                )

    def _open(self) -> SentenceEncoder:
        """Loads the encoder with float32 parameters, up to the layer to align."""
        encoder = self.encoder.open_transformer(self.layer, "aligned")
        if self.objective != "linear":
            # Found out now rather than after training.
            encoder.check_exportable()
        longest = min(encoder.tokenizer.max_length, encoder.model.config.longest)
        if self.encoder.max_length > longest:
            raise ValueError(f"--max-length is {self.encoder.max_length}; {encoder.spec.id} takes at most {longest}")
        return encoder

    def _examples(self, encoder: SentenceEncoder) -> Parts:
        """Returns the tokenized pairs to train on, and those for validation."""
        length, tokenizer = self.encoder.max_length, encoder.tokenizer
        examples = []
        if self.objective == "sentence":
            check_prompt(encoder.prompt, tokenizer, check_length(length, tokenizer))
            pairs = self.text.pairs()
            for part in (0, 1):
                own = {code: both[part] for code, both in pairs.items()}
                examples.append(sentence_examples(tokenizer, own, length, encoder.prompt))
        else:
            for name in PARTS:
                aligned = read_aligned(self.words, name, self.text.languages)
                examples.append(word_examples(tokenizer, {code: one for code, (one, _) in aligned.items()}, length))
            if examples[0].codes != examples[1].codes:
                raise ValueError(
                    f"{self.words} has training pairs of {', '.join(examples[0].codes)}, but validation pairs of "
                    f"{', '.join(examples[1].codes)}; give both for each language"
                )
        for name, several in zip(PARTS, examples, strict=True):
            if len(several) < self.optimizer.batch and self.objective != "linear":
                raise ValueError(
                    f"--batch is {self.optimizer.batch}; it must be at most the number of {name} pairs, {len(several)}"
                )
        return examples[0], examples[1]

    def _train(self, encoder: SentenceEncoder, examples: Parts) -> Trained:
        self._claim(encoder, examples)
        told = [
            f"{len(part)} {name} pairs" + ("" if part.links is None else f" with {sum(map(len, part.links))} links")
            for name, part in zip(("training", "validation"), examples, strict=True)
        ]
        console.print(f"{self.objective}: {' and '.join(told)}, of English and {', '.join(examples[0].codes)}")
        steps, every = known(self.optimizer.steps), known(self.optimizer.validate_every)
        linear = self.objective == "linear"
        loop = LoopOptions(
            -(-steps // every),
            known(self.optimizer.patience),
            every if linear else self.log_every,
            self.checkpoint_seconds,
        )
        if linear:
            return self._fit_maps(encoder, examples, loop)
        return self._train_encoder(encoder, examples, loop)

    def _train_encoder(self, encoder: SentenceEncoder, examples: Parts, loop: LoopOptions) -> Trained:
        projection = encoder.projection if self.objective == "sentence" else None
        skeleton, values, frozen = take_apart(EncoderParts(encoder.model, projection), self.loss.freeze_words)
        schedule = self._schedule()
        mesh = data_mesh(jax.devices())
        programs = EncoderSteps(skeleton, values, frozen, self._step_options(encoder), schedule, mesh)
        trainee = EncoderTraining(
            programs, values, examples, self._plan(encoder, examples[0]), self.optimizer.learning_rate, self.seed
        )
        trained = self._loop(trainee, loop)
        kept = of_seed(trained.last if self.keep == "final" else trained.best, 0)
        if is_first():
            # On the devices of this process, if it trained with others.
            kept = kept if jax.process_count() == 1 else jax.device_put(fetched(kept), replicated(encoder.mesh))
            parts = skeleton.filled({**kept, **frozen})
            aligned = put_together(
                encoder, parts if projection is not None else parts._replace(projection=encoder.projection)
            )
            folder = self._folder(encoder)
            if folder.exists():  # written by this run before
                shutil.rmtree(folder)
            aligned.to_sentence_transformers(folder)
            self._tell(encoder, trained)
        wait_for_all("trained")
        return trained

    def _fit_maps(self, encoder: SentenceEncoder, examples: Parts, loop: LoopOptions) -> Trained:
        plan = self._plan(encoder, examples[0])
        training, validation = (
            link_moments(encoder, part, plan, self.out / "moments" / name)
            for name, part in zip(("training", "validation"), examples, strict=True)
        )
        trainee = LinearTraining(
            training, validation, self._schedule(), self.optimizer.learning_rate, plan.steps, plan.every,
            self.loss.beta, self.seed,
        )  # fmt: skip
        trained = self._loop(trainee, loop)
        if is_first():
            write_maps(trainee, trained.last["maps"][0], encoder.spec, self.out)
            self._tell(encoder, trained, float(np.mean(trained.last["lowest"])))
        wait_for_all("trained")
        return trained

    def _loop(self, trainee: Trainee, loop: LoopOptions) -> Trained:
        with console.status("") as status:
            return train(trainee, loop, self.out, status.update if console.is_terminal else Seldom())

    def _schedule(self) -> optax.Schedule:
        optimizer = self.optimizer
        return linear_schedule(optimizer.learning_rate, known(optimizer.warmup), known(optimizer.steps))

    def _step_options(self, encoder: SentenceEncoder) -> StepOptions:
        assert self.objective != "linear"
        return StepOptions(
            objective=self.objective,
            temperature=known(self.loss.temperature),
            projected=self.loss.projected,
            stay_close=known(self.loss.stay_close),
            squared=self.loss.squared,
            stay_close_hidden=self.loss.stay_close_hidden,
            dropout=self.loss.dropout,
            remat=self.memory.remat,
            cached=self.memory.cached,
            layer=encoder.spec.layer,
            pooling=encoder.pooling,
            specials=encoder.tokenizer.specials,
        )

    def _plan(self, encoder: SentenceEncoder, examples: Examples) -> BatchPlan:
        # The states of linear are encoded by each process on its own.
        devices = len(jax.local_devices() if self.objective == "linear" else jax.devices())
        return BatchPlan(
            size=self.optimizer.batch,
            steps=known(self.optimizer.steps),
            every=known(self.optimizer.validate_every),
            validated=self.optimizer.validation_pairs,
            chunks=ChunkSizes(known(self.memory.chunk_tokens), self.encoder.max_length, devices),
            pad_id=encoder.tokenizer.pad_id,
        )

    def _claim(self, encoder: SentenceEncoder, examples: Parts) -> None:
        wanted = flat_options(self, _FREE) | {"encoder_spec": encoder.spec.to_dict()}
        training, validation = examples
        pairs = {code: [count, validation.counts[code]] for code, count in training.counts.items()}
        wanted |= {"pairs": pairs, "text": [part.hash() for part in examples]}
        linear = self.objective == "linear"
        replaced = MAP_FILES if linear else (self._folder(encoder).name,)
        claim(self.out, wanted, ("checkpoints/[0-9]*", "moments/*/*"), replaced)

    def _folder(self, encoder: SentenceEncoder) -> Path:
        """Returns where the aligned encoder is written; results name an encoder by its folder."""
        return self.out / f"{encoder.spec.id.rpartition('/')[2]}-{self.objective}"

    def _tell(self, encoder: SentenceEncoder, trained: Trained, of_maps: float | None = None) -> None:
        """Writes how the run ended, and draws its curves.

        Args:
          encoder: the encoder that was aligned.
          trained: how the run ended.
          of_maps: for linear, the mean validation loss of what is written, the best matrix of each layer and language.
        """
        progress = trained.progress
        draw_curves(
            self.out / "log.jsonl", f"{self.objective}, {encoder.spec.id}, layer {encoder.spec.layer}", self.out
        )
        every = known(self.optimizer.validate_every)
        told = {
            "objective": self.objective,
            "steps": progress.taken,
            "validation": progress.best[0] if of_maps is None else of_maps,
            "best_step": min((progress.best_epoch[0] + 1) * every, progress.taken),
            "stopped_by": "steps" if progress.active[0] else "patience",
            "written": self.keep if of_maps is None else "best of each layer and language",
        }
        write_json(self.out / "trained.json", told)
        speed = f", {trained.steps_per_second:.2f} steps/s including validation" if trained.steps_per_second else ""
        console.print(
            f"{progress.taken} steps{speed}; best validation {progress.best[0]:.4f} at step {told['best_step']}, "
            f"stopped by --{told['stopped_by']}; wrote {self.out}"
        )
