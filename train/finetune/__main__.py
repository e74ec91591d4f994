r"""Trains a task on English, and tests it in other languages: zero-shot transfer, with several seeds.

    python -m train.finetune --task pos --encoder results/strong/bundled-strong \
        --train data/ud/en_ewt-ud-train8k.conllu --dev data/ud/en_ewt-ud-dev.conllu \
        --test data/ud/*_pud-ud-test500.conllu --out results/transfer/pos-strong

The tasks are those of Wu and Dredze (EMNLP 2020): ``xnli``, ``ner``, ``pos`` and ``parsing``. Each seed trains on the
English text, keeps the parameters with the best score on English development text, and is tested on every file. Without
``--dev``, the development text is held out from the training text.

To resume a killed run, repeat the same command. The command writes ``config.json`` and, in a folder for each group of
seeds, the log and its figure; ``transfer.json`` has the scores by seed and file, for ``python -m eval transfer``.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import jax
import numpy as np
import optax
import tyro

from lsar_jax import EncoderSpec, SentenceEncoder, __version__
from lsar_jax.checks import at_least, check_seeds
from lsar_jax.console.output import console, print_table
from lsar_jax.console.run import run
from lsar_jax.corpora.tables import Data, pin
from lsar_jax.files import read_json, sha256, write_json
from lsar_jax.languages import language_code
from lsar_jax.mesh import data_mesh
from lsar_jax.models.encoder import Encoder
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.processes import agreed, is_first
from train.checkpoints import remove_checkpoints
from train.defaults import known
from train.finetune.conllu_ner_xnli import is_dataset, language_of
from train.finetune.features import Maps, read_maps
from train.finetune.ner import chinese_words
from train.finetune.tasks import TASKS, TransferTask
from train.finetune.training import FinetuneOptions, FinetuneTraining, LabelledText, TaskText, longest
from train.loop import LoopOptions, linear_schedule, of_seed, train
from train.run_folder import ALIGNMENT, claimed, flat_options

__all__ = ["Finetune"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds", "log_every", "at_once", "seeds")


@dataclass(frozen=True)
class Finetune:
    """Trains a task on English, and tests it in other languages.

    Attributes:
      task: xnli, ner, pos or parsing.
      train: English text to train on: a file, hub:ID#CONFIG or tfds:NAME#CONFIG.
      dev: English text that chooses the best step; by default held out from the training text.
      test: text to test on; the language is part of a file's name, as in de_pud-ud-test.conllu or dev-de.tsv, and of a
        configuration's, as in hub:unimelb-nlp/wikiann@main#de.
      languages: codes of the languages to test; by default, all that the text has.
      chinese_words: join the characters of Chinese test text, into which WikiAnn is split, to words; for ner.
      encoder: the encoder; max_length counts tokens without special ones, and words when parses are tested.
      layer: layer whose hidden states are used; by default, the last.
      maps: output folder of python -m train.align --objective linear, with --features: its matrices are applied to
        every language but English when it is tested.
      training: how to train.
      most: largest number of training sentences, the first of the text; by default all.
      most_dev: largest number of development sentences, the first of the text; by default all.
      most_tested: largest number of sentences of each test language; by default all.
      held_out: number of training sentences held out if there is no --dev.
      seeds: random seeds.
      at_once: number of seeds to train in one program; by default 1 on a CPU, and all elsewhere. The longest sentence
        of all of them decides the shape of dropout's masks, so that another number gives slightly different scores.
      log_every: number of steps per line of the log.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: output folder of this run.
    """

    task: str
    train: Data
    test: tuple[Data, ...]
    dev: Data | None = None
    languages: tuple[str, ...] = ()
    chinese_words: bool = False
    encoder: tyro.conf.OmitArgPrefixes[EncoderOptions] = field(default_factory=EncoderOptions)
    layer: int | None = None
    maps: Path | None = None
    training: tyro.conf.OmitArgPrefixes[FinetuneOptions] = field(default_factory=FinetuneOptions)
    most: int | None = None
    most_dev: int | None = None
    most_tested: int | None = None
    held_out: int = 1000
    seeds: tuple[int, ...] = (12, 156, 78, 37, 8)
    at_once: int | None = None
    log_every: int = 20
    checkpoint_seconds: float = 300.0
    out: Path = Path("results/finetune")

    # What --help shows.
    essential = (
        "task", "train", "dev", "test", "languages", "encoder", "layer", "seeds", "epochs", "out"
    )  # fmt: skip

    def run(self) -> dict[str, Any]:
        """Trains all seeds, tests them, and prints the scores; returns what ``transfer.json`` holds."""
        return self._complete()._run(TASKS[self.task])

    def check(self, encoder: SentenceEncoder | None = None) -> SentenceEncoder:
        """Raises the errors of options, text and encoder, all of which come before training; returns the encoder.

        Another run with the same encoder and layer can be given it, and does not load it again.
        """
        run, task = self._complete(), TASKS[self.task]
        run._check()
        run._english(task)
        run._tests(task)
        return run._open(encoder)

    def _complete(self) -> Self:
        """The options with the defaults of the task, and with the commits of datasets of the Hub."""
        if self.task not in TASKS:
            raise ValueError(f"--task is {self.task}; choose one of {', '.join(TASKS)}")
        return replace(
            self,
            training=self.training.complete(TASKS[self.task]),
            train=pin(self.train),
            dev=None if self.dev is None else pin(self.dev),
            test=tuple(map(pin, self.test)),
        )

    def _run(self, task: TransferTask) -> dict[str, Any]:
        self._check()
        training, development = self._english(task)
        tests = self._tests(task)
        encoder = self._open()
        maps: Maps = {}
        if self.maps is not None:
            # Read before training, so that an error comes early.
            maps = read_maps(self.maps, encoder.spec)
            if unmapped := [name for name, (code, _) in tests.items() if code != "en" and code not in maps]:
                console.print(f"{self.maps} has no matrices for {', '.join(unmapped)}; tested without")
        with claimed(self.out, self.encoder.encoder, self._options(encoder), ["seed-*/checkpoints/[0-9]*"]):
            done: dict[str, Any] = agreed(self._done() if is_first() else {})
            for path in self.out.glob("seed-*/checkpoints") if is_first() else ():
                if all(seed in done for seed in _seeds_in(path.parent)):  # killed after their scores were written
                    remove_checkpoints(path)
            if left := [seed for seed in self.seeds if str(seed) not in done]:
                text, tested = self._tokenized(task, encoder, training, development, tests)
                training_task = self._training_task(text, encoder)
                for group in map(tuple, agreed(self._groups(left))):
                    done |= self._group(text, training_task.for_seeds(group), encoder.spec, tested, maps)
                    record = {
                        "task": task.name, "metric": task.metric, "encoder": encoder.spec.to_dict(),
                        "maps": "" if self.maps is None else "linear maps", "alignment": self._alignment(),
                        "seeds": done, "lsar_jax": __version__,
                    }  # fmt: skip
                    if is_first():
                        write_json(self.out / "transfer.json", record)
                        # The parameters are large, and all that is needed from now on are the scores.
                        remove_checkpoints(self._folder(group) / "checkpoints")
        self._print(task, done)
        return read_json(self.out / "transfer.json", dict)

    def _alignment(self) -> dict[str, Any]:
        """Returns how the encoder, or the maps, were aligned; empty if they were not, or if it is not known."""
        path = (self.maps or Path(self.encoder.encoder)) / ALIGNMENT
        return read_json(path, dict, ("objective", "encoder", "text")) if path.is_file() else {}

    def _check(self) -> None:
        if self.maps is not None and not self.training.features:
            raise ValueError("--maps needs --features: a trained encoder has other states than the maps were fitted on")
        if self.chinese_words and self.task != "ner":
            raise ValueError(f"--chinese-words joins the characters of ner, but --task is {self.task}; omit it")
        if not self.test:
            raise ValueError("--test needs at least one file")
        if again := [str(data) for data in self.test if self.test.count(data) > 1]:
            raise ValueError(f"--test has {again[0]} twice; give it once")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"--seeds is {' '.join(map(str, self.seeds))}; give one or more, each once")
        check_seeds(self.seeds, "seeds")
        at_least(1, **{name: getattr(self, name) for name in ("most", "most_dev", "most_tested", "at_once")})
        at_least(1, held_out=self.held_out, log_every=self.log_every, max_length=self.encoder.max_length)

    def _open(self, encoder: SentenceEncoder | None = None) -> SentenceEncoder:
        if self.encoder.prompt is not None:
            raise ValueError(f"--prompt is {self.encoder.prompt!r}, but words and pairs have no prompt; omit it")
        encoder = encoder or self.encoder.open_transformer(self.layer, "fine-tuned")
        if encoder.needs_language:
            raise ValueError(f"{encoder.spec.id} needs the language, which fine-tuning does not support")
        if self.encoder.max_length + sum(encoder.tokenizer.specials) > longest(encoder):
            raise ValueError(
                f"--max-length is {self.encoder.max_length}; with special tokens, {encoder.spec.id} takes at most "
                f"{longest(encoder)} tokens"
            )
        blocks, trained = encoder.model.config.blocks, self.training.trained_blocks
        if trained is not None and not 0 <= trained <= blocks:
            raise ValueError(f"--trained-blocks is {trained}; {encoder.spec.id} has {blocks} blocks")
        return encoder

    def _english(self, task: TransferTask) -> tuple[list[Any], list[Any]]:
        """Returns the sentences to train on, and those that choose the best step."""
        training = self._in_english(task, self.train, "train")
        if self.dev is None:
            if len(training) <= self.held_out:
                raise ValueError(
                    f"{self.train} has {len(training)} sentences, of which --held-out takes {self.held_out}; give --dev"
                )
            # From the end, so that --most takes the same sentences with --dev and without.
            training, development = training[: -self.held_out], training[-self.held_out :]
        else:
            development = self._in_english(task, self.dev, "dev")
        training, development = training[: self.most], development[: self.most_dev]
        if len(training) < known(self.training.batch):
            raise ValueError(f"--batch is {self.training.batch}; it must be at most {len(training)}, all sentences")
        return training, development

    def _in_english(self, task: TransferTask, data: Data, part: str) -> list[Any]:
        """Returns the English sentences; a file that does not say its language is taken to be English."""
        found = task.read(data, part)
        english = found.get("en", found.get(""))
        if english is None:
            raise ValueError(f"{data} has no text in en; it has {', '.join(found)}")
        return english

    def _tests(self, task: TransferTask) -> dict[str, tuple[str, list[Any]]]:
        """Returns the language and the sentences of each test, by its name."""
        tests: dict[str, tuple[str, list[Any]]] = {}
        configurations = [str(data).rpartition("#")[2] for data in self.test if is_dataset(data)]
        for data in self.test:
            found = self._tested(task, data)
            for code, sentences in found.items():
                if is_dataset(data):
                    name = str(data).rpartition("#")[2]
                    name = name if configurations.count(name) == 1 else str(data)
                else:
                    # A table of several languages is a test of each.
                    name = Path(data).stem if list(found) == [language_of(data)] else f"{Path(data).stem}.{code}"
                if name in tests:
                    raise ValueError(f"{data}: there is another test named {name}; rename one")
                if not code:
                    raise ValueError(
                        f"{data} is not named after its language, as in de_pud-ud-test.conllu or dev-de.tsv; rename it"
                    )
                tests[name] = (code, sentences[: self.most_tested])
        codes = {code for code, _ in tests.values()}
        if absent := [code for code in self.languages if language_code(code) not in codes]:
            raise ValueError(f"--languages has {absent[0]}, but --test has only {', '.join(sorted(codes)) or 'others'}")
        return tests

    def _tested(self, task: TransferTask, data: Data) -> dict[str, list[Any]]:
        """Returns the sentences of a test by language, without the languages that are not tested."""
        found = task.read(data, "test")
        codes = {language_code(code) for code in self.languages}
        if self.chinese_words and "zh" in found:
            found["zh"] = chinese_words(found["zh"])
        return {code: sentences for code, sentences in found.items() if not codes or code in ("", *codes)}

    def _tokenized(
        self, task: TransferTask, encoder: SentenceEncoder, training: list[Any], development: list[Any],
        tests: dict[str, tuple[str, list[Any]]],
    ) -> tuple[TaskText, dict[str, LabelledText]]:  # fmt: skip
        """Returns the tokenized text to train on, and to test on."""
        labels = task.labels(training)

        def examples(sentences: list[Any], language: str, training: bool = False) -> list[Any]:
            length, last = self.encoder.max_length, cast(Encoder, encoder.model).causal
            return task.examples(encoder.tokenizer, sentences, language, length, labels, training, last)

        def labels_of(examples: Sequence[Any]) -> list[str]:
            numbers = {label for example in examples for label in example.labels[example.counted].tolist()}
            return [labels[number] for number in sorted(numbers) if number >= 0]

        trained, english = examples(training, "en", True), LabelledText("en", development, examples(development, "en"))
        if len(there := labels_of(trained)) < 2:
            raise ValueError(
                f"{self.train}: the labels to train on are {', '.join(there) or 'none'}; there must be at least two"
            )
        tested = {}
        for name, (code, sentences) in tests.items():
            tested[name] = LabelledText(code, sentences, examples(sentences, code))
        for name, text in ((str(self.dev or self.train), english), *tested.items()):
            if not labels_of(text.examples):
                raise ValueError(f"{name} has none of the labels of the training text, {', '.join(there)}")
        for name in tested:
            unknown = [label for example in tested[name].examples for label in example.labels[example.counted] < 0]
            if any(unknown):
                share = 100 * np.mean(unknown)
                console.print(f"{name}: {share:.1f}% of the labels are not in the training text; they count as wrong")
        return TaskText(task, labels, trained, english), tested

    def _options(self, encoder: SentenceEncoder) -> dict[str, Any]:
        """Returns the options and digests of text that a resumed run must share."""
        texts = (self.train, *([] if self.dev is None else [self.dev]), *self.test)
        files = {str(data): str(data) if is_dataset(data) else sha256([Path(data)]) for data in texts}
        options = flat_options(self, _FREE) | {"encoder_spec": encoder.spec.to_dict(), "files": files}
        if self.maps is not None:
            options["maps_sha256"] = sha256(sorted(self.maps.glob("layer-*.safetensors")))
        return options

    def _done(self) -> dict[str, Any]:
        path = self.out / "transfer.json"
        if not path.is_file():
            return {}
        done = read_json(path, dict, ("seeds",))["seeds"]
        if not isinstance(done, dict):
            raise ValueError(f"{path} is damaged: its seeds are {done!r:.60}")
        return done

    def _training_task(self, text: TaskText, encoder: SentenceEncoder) -> FinetuneTraining:
        options = self.training
        steps = sum(options.parts(len(text.training))) * known(options.epochs)
        sentences = 1 + max(example.sentence for example in text.training)
        console.print(f"{text.task.name}: {len(text.training)} examples of {sentences} sentences, {steps} steps")
        schedule = linear_schedule(known(options.learning_rate), round(options.warmup * steps), steps)
        optimizer = optax.adam(schedule, b2=0.99)
        return FinetuneTraining(text, encoder, options, optimizer, self.seeds, data_mesh(jax.devices()))

    def _group(
        self, text: TaskText, task: FinetuneTraining, spec: EncoderSpec, tests: dict[str, LabelledText], maps: Maps
    ) -> dict[str, Any]:
        """Trains and tests some seeds; returns their scores."""
        seeds = task.seeds
        console.print(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
        loop = LoopOptions(task.epochs, self.training.patience, self.log_every, self.checkpoint_seconds)
        trained = train(task, loop, self._folder(seeds), f"{text.task.name}, {spec.id}, layer {spec.layer}")
        started, result = time.perf_counter(), {}
        for number, seed in enumerate(seeds):
            best = of_seed(trained.best, number)
            scores = {}
            for name, test in tests.items():
                predicted = task.predict(best, test.examples, maps.get(test.language))
                scores[name] = {
                    "language": test.language, "n": len(test.sentences), "mapped": test.language in maps,
                    **text.score(test, predicted),
                }  # fmt: skip
            result[str(seed)] = {
                "development": 100 - trained.progress.best[number],
                "best_validation": trained.progress.best_epoch[number] + 1,
                "validations": trained.progress.epoch,
                "trained_with": list(seeds),
                "scores": scores,
            }
        console.print(f"tested in {time.perf_counter() - started:.0f} s")
        return result

    def _groups(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the seeds to train in one program; groups that have started, which have checkpoints, come first."""
        groups: list[tuple[int, ...]] = []
        left = list(seeds)
        for path in sorted(self.out.glob("seed-*/checkpoints")):
            group = tuple(map(int, _seeds_in(path.parent)))
            if set(group) <= set(left):
                groups.append(group)
                left = [seed for seed in left if seed not in group]
        size = self.at_once or (1 if jax.default_backend() == "cpu" else len(self.seeds))
        return groups + [tuple(left[at : at + size]) for at in range(0, len(left), size)]

    def _folder(self, seeds: tuple[int, ...]) -> Path:
        """Returns the folder of a group of seeds."""
        return self.out / f"seed-{'-'.join(map(str, seeds))}"

    def _print(self, task: TransferTask, done: dict[str, Any]) -> None:
        names = next(iter(done.values()))["scores"]
        columns = {name: [seed["scores"][name][task.metric] for seed in done.values()] for name in names}
        columns["development"] = [seed["development"] for seed in done.values()]
        rows: list[Sequence[str | float]] = [
            [name, float(np.mean(values)), f"{np.std(values, ddof=1):.1f}" if len(values) > 1 else ""]
            for name, values in columns.items()
        ]
        print_table(f"{task.metric} of {len(done)} seeds", ["test", "mean", "std"], rows)


def _seeds_in(folder: Path) -> list[str]:
    """Returns the seeds that a folder is named after."""
    return folder.name.split("-")[1:]


def main(arguments: list[str] | None = None) -> int:
    """Trains a task in English, and tests it in other languages."""
    return run(Finetune, "python -m train.finetune", arguments, __doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
