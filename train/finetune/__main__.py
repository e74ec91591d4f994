r"""Trains a task on English, and tests it in other languages: zero-shot transfer, with several seeds.

    python -m train.finetune --task pos --encoder results/strong/bundled-strong \
        --train data/ud/en_ewt-ud-train8k.conllu --dev data/ud/en_ewt-ud-dev.conllu \
        --test data/ud/*_pud-ud-test500.conllu --out results/transfer/pos-strong

The tasks follow Wu and Dredze (EMNLP 2020): ``xnli``, ``ner``, ``pos`` and ``parsing``. Each seed trains on the
English text, keeps the parameters with the best score on English development text, and is tested on every file. Without
``--dev``, the development text is held out from the training text.

To resume a killed run, repeat the same command. The command writes ``config.json`` and, in a folder for each seed, the
log and its figure; ``transfer.json`` has the scores by seed and file, for ``python -m eval transfer``.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import optax
import tyro

from lsar_jax import EncoderSpec, SentenceEncoder, __version__
from lsar_jax.checks import at_least, check_option, check_seeds
from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.files import read_json, sha256, write_json
from lsar_jax.mesh import data_mesh
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.processes import agreed, is_first
from train.adam import linear_schedule
from train.checkpoints import remove_checkpoints
from train.defaults import known
from train.finetune.features import Maps, read_maps
from train.finetune.options import FinetuneOptions
from train.finetune.tasks import TASKS
from train.finetune.text import LabelledText, TaskText, Tests, TextChoice, tokenized
from train.finetune.training import FinetuneTraining, longest
from train.loop import LoopOptions, train
from train.run_folder import ALIGNMENT, claimed, flat_options
from train.training_task import of_seed

__all__ = ["Finetune"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds", "seeds")

# Share of all steps for the warm-up, number of validations without a better score after which training ends, and number
# of steps per line of the log.
_WARMUP, _PATIENCE, _LOG_EVERY = 0.1, 10, 20


@dataclass(frozen=True)
class Finetune:
    """Trains a task on English, and tests it in other languages.

    Attributes:
      task: xnli, ner, pos or parsing.
      text: the text of the task.
      encoder: the encoder; max_length counts tokens without special ones, and words when parses are tested.
      layer: layer whose hidden states are used; by default, the last.
      maps: output folder of python -m train.align --objective linear, with --features: its matrices are applied to
        every language but English when it is tested.
      training: how to train.
      seeds: random seeds.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: output folder of this run.
    """

    task: Literal["xnli", "ner", "pos", "parsing"]
    text: tyro.conf.OmitArgPrefixes[TextChoice]
    encoder: tyro.conf.OmitArgPrefixes[EncoderOptions] = field(default_factory=EncoderOptions)
    layer: int | None = None
    maps: Path | None = None
    training: tyro.conf.OmitArgPrefixes[FinetuneOptions] = field(default_factory=FinetuneOptions)
    seeds: tuple[int, ...] = (12, 156, 78, 37, 8)
    checkpoint_seconds: float = 300.0
    out: Path = Path("results/finetune")

    # What --help shows.
    essential = ("task", "train", "dev", "test", "languages", "encoder", "layer", "seeds", "epochs", "out")

    def run(self) -> dict[str, Any]:
        """Trains all seeds, tests them, and prints their scores; returns what ``transfer.json`` holds."""
        task = TASKS[self.task]
        run = replace(self, text=self.text.pinned(), training=self.training.complete(task))
        # What does not go together is refused before anything is read.
        check_option(self.training.features, "given with --features, or left out", maps=self.maps)
        check_option(False, "left out: words and pairs have no prompt", prompt=self.encoder.prompt)
        check_option(0 < len(self.seeds) == len(set(self.seeds)), "one or more, each once", seeds=self.seeds)
        check_seeds(self.seeds, "seeds")
        at_least(1, max_length=self.encoder.max_length)
        read = run.text.read(task)
        batch = known(run.training.batch)
        check_option(batch <= len(read[0]), f"at most {len(read[0])}, all sentences", batch=batch)
        encoder = run._open()
        maps = run._read_maps(encoder, read[2])
        options = flat_options(run, _FREE) | {"encoder_spec": encoder.spec.to_dict(), "files": run.text.digests()}
        options["maps_sha256"] = self.maps and sha256(sorted(self.maps.glob("layer-*.safetensors")))
        with claimed(self.out, self.encoder.encoder, options, ["seed-*/checkpoints/[0-9]*"]):
            path = self.out / "transfer.json"
            ended = is_first() and path.is_file()
            done: dict[str, Any] = agreed(read_json(path, dict, ("seeds",))["seeds"] if ended else {})
            for name in done if is_first() else ():  # killed after its scores were written
                remove_checkpoints(self.out / f"seed-{name}" / "checkpoints")
            if left := [seed for seed in self.seeds if str(seed) not in done]:
                text, tested = tokenized(run.text, task, encoder, self.encoder.max_length, read)
                training = run._training(text, encoder)
                for seed in left:
                    done[str(seed)] = run._train(training.for_seed(seed), encoder.spec, tested, maps)
                    if is_first():
                        run._write(encoder.spec, done)
                        # The parameters are large, and all that is needed from now on are the scores.
                        remove_checkpoints(self.out / f"seed-{seed}" / "checkpoints")
        return read_json(path, dict)

    def _open(self) -> SentenceEncoder:
        encoder = self.encoder.open_transformer(self.layer, "fine-tuned")
        if encoder.needs_language:
            raise ValueError(f"{encoder.spec.id} needs the language, which fine-tuning does not support")
        length, most = self.encoder.max_length, longest(encoder) - sum(encoder.tokenizer.specials)
        check_option(length <= most, f"at most {most}, which {encoder.spec.id} takes", max_length=length)
        blocks, trained = encoder.model.config.blocks, self.training.trained_blocks
        check_option(0 <= (trained or 0) <= blocks, f"from 0 to {blocks}, its blocks", trained_blocks=trained)
        return encoder

    def _read_maps(self, encoder: SentenceEncoder, tests: Tests) -> Maps:
        """Reads the maps before training, so that an error comes early, and says which tests have none."""
        if self.maps is None:
            return {}
        maps = read_maps(self.maps, encoder.spec)
        if unmapped := [name for name, (code, _) in tests.items() if code != "en" and code not in maps]:
            console.print(f"{self.maps} has no matrices for {', '.join(unmapped)}; tested without")
        return maps

    def _training(self, text: TaskText, encoder: SentenceEncoder) -> FinetuneTraining:
        options = self.training
        steps = sum(options.parts(len(text.training))) * known(options.epochs)
        sentences = 1 + max(example.sentence for example in text.training)
        console.print(f"{text.task.name}: {len(text.training)} examples of {sentences} sentences, {steps} steps")
        schedule = linear_schedule(known(options.learning_rate), round(_WARMUP * steps), steps)
        optimizer = optax.adam(schedule, b2=0.99)
        return FinetuneTraining(text, encoder, options, optimizer, self.seeds[0], data_mesh(jax.devices()))

    def _train(
        self, training: FinetuneTraining, spec: EncoderSpec, tests: Mapping[str, LabelledText], maps: Maps
    ) -> dict[str, Any]:
        """Trains and tests a seed; returns its scores."""
        [seed] = training.seeds
        console.print(f"seed {seed}")
        loop = LoopOptions(training.epochs, _PATIENCE, self.checkpoint_seconds)
        title = f"{self.task}, {spec.id}, layer {spec.layer}"
        trained = train(training, loop, self.out / f"seed-{seed}", title, _LOG_EVERY)
        started, best, scores = time.perf_counter(), of_seed(trained.best, 0), {}
        for name, test in tests.items():
            predicted = training.predict(best, test.examples, maps.get(test.language))
            about = {"language": test.language, "n": len(test.sentences), "mapped": test.language in maps}
            scores[name] = about | training.text.score(test, predicted)
        metric = TASKS[self.task].metric
        found = ", ".join(f"{name} {score[metric]:.1f}" for name, score in scores.items())
        console.print(f"{metric} of seed {seed}: {found}; tested in {time.perf_counter() - started:.0f} s")
        position = trained.position
        return {
            "development": 100 - position.best[0],
            "best_validation": position.best_epoch[0] + 1,
            "validations": position.epoch,
            "scores": scores,
        }

    def _write(self, spec: EncoderSpec, done: Mapping[str, Any]) -> None:
        # How the encoder, or the maps, were aligned, if they were, and if it is known.
        path = (self.maps or Path(self.encoder.encoder)) / ALIGNMENT
        alignment = read_json(path, dict, ("objective", "encoder", "text")) if path.is_file() else {}
        record = {
            "task": self.task, "metric": TASKS[self.task].metric, "encoder": spec.to_dict(),
            "maps": "" if self.maps is None else "linear maps", "alignment": alignment, "seeds": done,
            "lsar_jax": __version__,
        }  # fmt: skip
        write_json(self.out / "transfer.json", record)


# Runs the command with these arguments; returns its exit status.
main = partial(run, Finetune, "python -m train.finetune", description=__doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
