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

import shutil
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast

import jax
import numpy as np
import tyro

from lsar_jax import SentenceEncoder
from lsar_jax.checkpoints.export import check_exportable
from lsar_jax.checks import at_least, check_seeds
from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.corpora.question_answers import check_templates
from lsar_jax.encoders.options import check_length, check_prompt, prompt_tokens
from lsar_jax.files import unused, write_json
from lsar_jax.mesh import data_mesh, fetched, replicated
from lsar_jax.models.encoder import Encoder
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.processes import is_first
from train.align.batches import ChunkSizes
from train.align.examples import Parts, sentence_examples, word_examples
from train.align.linear import MAP_FILES, LinearTraining, link_moments, write_maps
from train.align.options import AlignOptions, Objective
from train.align.questions import question_pairs
from train.align.steps import EncoderSteps, StepOptions
from train.align.training import BatchPlan, EncoderTraining
from train.defaults import known
from train.encoder_parameters import EncoderParts, take_apart
from train.loop import LoopOptions, Trained, linear_schedule, of_seed, train
from train.run_folder import ALIGNMENT, claimed, flat_options
from train.text import TextOptions
from train.word_pairs.aligned_files import PARTS, read_aligned

__all__ = ["Align"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds", "log_every", "patience")


@dataclass(frozen=True)
class Align:
    """Aligns an encoder.

    Attributes:
      objective: linear, l2, weak, strong or sentence.
      words: folder of word-aligned text, from python -m train.word_pairs, for all objectives but sentence.
      text: the text of the objective sentence.
      questions: for the objective sentence, folder of {language}.json files in SQuAD's format, instead of --data: a
        question and its answer, of one language, are a pair. All --languages are in each batch. --held-out counts
        questions, of whole paragraphs, for python -m eval lareqa.
      question_text: text of a question, with {question}; a prompt of that side goes before it.
      answer_text: text of an answer, with {answer} for its sentence and {paragraph} for its paragraph, which is cut
        at --max-length.
      encoder: the encoder to align.
      layer: layer to align, above which no block is kept; by default, the last.
      options: the optimizer, the loss, and what trades memory for time.
      seed: random seed of the order of batches, dropout and the projector.
      log_every: number of steps per line of the log.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: output folder of this run.
    """

    objective: Objective = "strong"
    words: Path = Path("results/word-pairs")
    text: tyro.conf.OmitArgPrefixes[TextOptions] = field(
        default_factory=lambda: TextOptions(data=Path("data/sentences"))
    )
    questions: Path | None = None
    question_text: str = "{question}"
    answer_text: str = "{answer} {paragraph}"
    encoder: tyro.conf.OmitArgPrefixes[EncoderOptions] = field(default_factory=lambda: EncoderOptions(max_length=96))
    layer: int | None = None
    options: tyro.conf.OmitArgPrefixes[AlignOptions] = field(default_factory=AlignOptions)
    seed: int = 42
    log_every: int = 10
    checkpoint_seconds: float = 600.0
    out: Path = Path("results/align")

    # What --help shows.
    essential = (
        "objective", "words", "data", "questions", "encoder", "layer", "steps", "batch", "learning_rate", "out"
    )  # fmt: skip

    def run(self) -> Trained:
        """Reads the text, trains, and writes the aligned encoder, the log and its figure."""
        # For linear, each process encodes on its own.
        devices = len(jax.local_devices() if self.objective == "linear" else jax.devices())
        run = replace(self, options=self.options.complete(self.objective, devices))
        at_least(1, log_every=self.log_every)
        check_seeds([self.seed])
        self.text.check()
        self._check_text()
        check_templates(self.question_text, self.answer_text)
        if self.objective == "sentence":
            run = replace(run, text=self.text.pinned())
        encoder = self.encoder.open_transformer(self.layer, "aligned")
        if self.objective != "linear":
            # Found out now rather than after training.
            check_exportable(encoder)
        longest = min(encoder.tokenizer.max_length, encoder.model.config.longest)
        if self.encoder.max_length > longest:
            raise ValueError(f"--max-length is {self.encoder.max_length}; {encoder.spec.id} takes at most {longest}")
        examples = run._examples(encoder)
        training, validation = examples
        options = flat_options(run, _FREE) | {
            "encoder_spec": encoder.spec.to_dict(),
            "pairs": {code: [count, validation.counts[code]] for code, count in training.counts.items()},
            "text": [part.hash() for part in examples],
        }
        files = MAP_FILES if self.objective == "linear" else (run._folder(encoder).name,)
        with claimed(self.out, self.encoder.encoder, options, ("moments/*/*", *files)):
            return run._train(encoder, examples, devices)

    def _check_text(self) -> None:
        """Raises ValueError if an option is given that chooses text for another objective."""
        usual = Align()
        names = ("words", "questions", "question_text", "answer_text")
        other = [name for name in names if getattr(self, name) != getattr(usual, name)]
        if self.questions is not None and self.objective == "sentence":
            unread = [
                name for name in ("data", "more", "split") if getattr(self.text, name) != getattr(usual.text, name)
            ]
            changed, reads = ["words"] * ("words" in other) + unread, "questions (--questions)"
        elif self.objective == "sentence":
            changed, reads = other, "sentences (--data, --more)"
        else:
            changed = [name for name, value in vars(self.text).items() if value != getattr(usual.text, name)]
            changed = [*other, *(name for name in changed if name != "languages")]
            changed, reads = [name for name in changed if name != "words"], "word pairs (--words)"
        if changed:
            raise ValueError(
                f"--{changed[0].replace('_', '-')} is given, but --objective {self.objective} reads {reads}"
            )

    def _examples(self, encoder: SentenceEncoder) -> Parts:
        """Returns the tokenized pairs to train on, and those for validation."""
        length, tokenizer = self.encoder.max_length, encoder.tokenizer
        examples = []
        if self.objective == "sentence":
            check_prompt(encoder.prompt, tokenizer, check_length(length, tokenizer))
            if (asked := self.questions) is None:
                pairs = self.text.pairs()
            else:
                pairs = question_pairs(asked, self.text, self.question_text, self.answer_text)
            for number in (0, 1):
                of_part = {code: parts[number] for code, parts in pairs.items()}
                examples.append(sentence_examples(tokenizer, of_part, length, encoder.prompt, asked is None))
        else:
            for name in PARTS:
                aligned = read_aligned(self.words, name, self.text.languages)
                examples.append(word_examples(tokenizer, aligned, length, last=cast(Encoder, encoder.model).causal))
            if examples[0].codes != examples[1].codes:
                raise ValueError(
                    f"{self.words} has training pairs of {', '.join(examples[0].codes)}, but validation pairs of "
                    f"{', '.join(examples[1].codes)}; give both for each language"
                )
        for name, part in zip(PARTS, examples, strict=True):
            if len(part) < self.options.batch and self.objective != "linear":
                raise ValueError(
                    f"--batch is {self.options.batch}; it must be at most the number of {name} pairs, {len(part)}"
                )
        return examples[0], examples[1]

    def _train(self, encoder: SentenceEncoder, examples: Parts, devices: int) -> Trained:
        sizes = [
            f"{len(part)} {name} pairs" + ("" if part.links is None else f" with {sum(map(len, part.links))} links")
            for name, part in zip(("training", "validation"), examples, strict=True)
        ]
        sides = "of" if self.questions else "of English and"
        console.print(f"{self.objective}: {' and '.join(sizes)}, {sides} {', '.join(examples[0].codes)}")
        options = self.options
        plan = BatchPlan(
            size=options.batch,
            steps=known(options.steps),
            every=known(options.validate_every),
            validated=options.validation_pairs or 0,
            chunks=ChunkSizes(known(options.chunk_tokens), self.encoder.max_length, devices),
            pad_id=encoder.tokenizer.pad_id,
        )
        return (self._fit_maps if self.objective == "linear" else self._train_encoder)(encoder, examples, plan)

    def _train_encoder(self, encoder: SentenceEncoder, examples: Parts, plan: BatchPlan) -> Trained:
        options, mesh = self.options, data_mesh(jax.devices())
        projection = encoder.projection if self.objective == "sentence" else None
        skeleton, values, frozen = take_apart(EncoderParts(encoder.model, projection), options.freeze_words)
        losses = {option.name: getattr(options, option.name, None) for option in fields(StepOptions)}
        losses |= {"objective": self.objective, "layer": encoder.spec.layer, "pooling": encoder.pooling}
        losses |= {"languages": 1 + len(examples[0].codes), "dim": encoder.dim}
        losses["prompt"] = 0 if encoder.include_prompt else prompt_tokens(encoder.prompt, encoder.tokenizer)
        step = StepOptions(
            **{name: value for name, value in losses.items() if value is not None}, specials=encoder.tokenizer.specials
        )
        schedule = linear_schedule(options.learning_rate, known(options.warmup), plan.steps)
        programs = EncoderSteps(skeleton, values, frozen, step, schedule, mesh)
        task = EncoderTraining(programs, values, examples, plan, options.learning_rate, self.seed)
        trained = self._loop(task, encoder, plan)
        last = of_seed(trained.last, 0)
        if is_first():
            # On the devices of this process, if it trained with others.
            last = last if jax.process_count() == 1 else jax.device_put(fetched(last), replicated(encoder.mesh))
            parts = skeleton.filled({**last, **frozen})
            if projection is None:
                parts = parts._replace(projection=encoder.projection)
            folder = self._folder(encoder)
            aligned = SentenceEncoder(
                parts.model, encoder.tokenizer, encoder.spec.raw(), encoder.mesh, pooling=encoder.pooling,
                projection=parts.projection, prompts=encoder.prompts, languages=encoder.languages,
                architecture=encoder.architecture, include_prompt=encoder.include_prompt,
            )  # fmt: skip
            new = unused(folder)
            aligned.to_sentence_transformers(new)
            # If this run wrote the folder before, others may have put files into it since.
            for path in [path for path in new.rglob("*") if path.is_file()]:
                place = folder / path.relative_to(new)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)
            shutil.rmtree(new)
            self._describe(encoder, folder)
            self._tell(trained, plan, trained.position.best[0], "final")
        return trained

    def _fit_maps(self, encoder: SentenceEncoder, examples: Parts, plan: BatchPlan) -> Trained:
        options = self.options
        training, validation = (
            link_moments(encoder, part, plan, self.out / "moments" / name)
            for name, part in zip(("training", "validation"), examples, strict=True)
        )
        rate, beta = options.learning_rate, known(options.beta)
        schedule = linear_schedule(rate, known(options.warmup), plan.steps)
        task = LinearTraining(training, validation, schedule, rate, plan.steps, plan.every, beta, self.seed)
        trained = self._loop(task, encoder, plan)
        if is_first():
            write_maps(task, trained.last["maps"][0], encoder.spec, self.out)
            self._describe(encoder, self.out)
            self._tell(trained, plan, float(np.mean(trained.last["lowest"])), "best of each layer and language")
        return trained

    def _loop(self, task: EncoderTraining | LinearTraining, encoder: SentenceEncoder, plan: BatchPlan) -> Trained:
        calls = plan.every if self.objective == "linear" else self.log_every
        epochs = -(-plan.steps // plan.every)
        loop = LoopOptions(epochs, known(self.options.patience), calls, self.checkpoint_seconds)
        return train(task, loop, self.out, f"{self.objective}, {encoder.spec.id}, layer {encoder.spec.layer}")

    def _folder(self, encoder: SentenceEncoder) -> Path:
        """Returns where the aligned encoder is written; results name an encoder by its folder."""
        return self.out / f"{encoder.spec.id.rpartition('/')[2]}-{self.objective}"

    def _describe(self, encoder: SentenceEncoder, folder: Path) -> None:
        """Records what was aligned, for tables that name it: train.finetune copies it."""
        sentences = [self.text.data, *self.text.more] if self.questions is None else [self.questions]
        text = sentences if self.objective == "sentence" else [self.words]
        record = {"objective": self.objective, "encoder": encoder.spec.id, "text": " and ".join(map(str, text))}
        write_json(folder / ALIGNMENT, record)

    def _tell(self, trained: Trained, plan: BatchPlan, validation: float, written: str) -> None:
        """Records and prints how the run ended."""
        progress = trained.position
        record = {
            "objective": self.objective,
            "steps": progress.taken,
            "validation": validation,
            "best_step": min((progress.best_epoch[0] + 1) * plan.every, progress.taken),
            "stopped_by": "steps" if progress.active[0] else "patience",
            "written": written,
        }
        write_json(self.out / "trained.json", record)
        speed = f", {trained.steps_per_second:.2f} steps/s including validation" if trained.steps_per_second else ""
        console.print(
            f"{progress.taken} steps{speed}; best validation {progress.best[0]:.4f} at step {record['best_step']}, "
            f"stopped by --{record['stopped_by']}; wrote {self.out}"
        )


def main(arguments: list[str] | None = None) -> int:
    """Aligns an encoder."""
    return run(Align, "python -m train.align", arguments, __doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
