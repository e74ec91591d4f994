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

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import tyro

from lsar_jax import EncoderSpec, SentenceEncoder, __version__
from lsar_jax.cli.console import Seldom, console, print_table
from lsar_jax.cli.embed import EncoderChoice
from lsar_jax.cli.option_checks import at_least, known
from lsar_jax.corpora.labelled import is_dataset, language_of_file
from lsar_jax.corpora.tables import Data, pin
from lsar_jax.files import read_json, sha256, write_json
from lsar_jax.mesh import data_mesh
from lsar_jax.processes import agreed, is_first, wait_for_all
from train.curves import draw_curves
from train.encoder_parameters import EncoderParts, Parameters, take_apart
from train.finetune.examples import Example
from train.finetune.features import FeatureMix, Maps, read_maps
from train.finetune.options import FinetuneOptions, TaskName
from train.finetune.tasks import TransferTask, task_named
from train.finetune.training import Development, FinetunePlan, FinetuneTraining
from train.loop import LoopOptions, of_seed, train
from train.run_folder import claim, flat_options, locked
from train.schedule import linear_schedule

__all__ = ["Finetune", "split_blocks"]

# Options that may change when a run resumes.
_FREE = ("out", "checkpoint_seconds", "log_every", "at_once", "seeds")


class _Test(NamedTuple):
    """A test: its language, its sentences and their examples."""

    language: str
    sentences: Sequence[Any]
    examples: Sequence[Example]


@dataclass(frozen=True)
class Finetune:
    """Trains a task on English, and tests it in other languages.

    Attributes:
      task: xnli, ner, pos or parsing.
      train: English text to train on: a file, hub:ID#CONFIG or tfds:NAME#CONFIG.
      dev: English text that chooses the best step; by default held out from the training text.
      test: text to test on; the language is part of a file's name, as in de_pud-ud-test.conllu or dev-de.tsv, and of a
        configuration's, as in hub:unimelb-nlp/wikiann#de.
      encoder: the encoder; max_length counts tokens without special ones, and words when parses are tested.
      layer: layer whose hidden states are used; by default, the last.
      maps: output folder of python -m train.align --objective linear, with --features: its matrices are applied to
        every language but English when it is tested.
      closed_form: apply the matrices in closed form instead of the trained ones.
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

    task: TaskName
    train: Data
    test: tuple[Data, ...]
    dev: Data | None = None
    encoder: tyro.conf.OmitArgPrefixes[EncoderChoice] = field(default_factory=EncoderChoice)
    layer: int | None = None
    maps: Path | None = None
    closed_form: bool = False
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

    def run(self) -> dict[str, Any]:
        """Trains all seeds, tests them, and prints the scores.

        Returns:
          What ``transfer.json`` holds.

        Raises:
          FileNotFoundError: a file does not exist.
          ValueError: the options or files are invalid, the folder belongs to another run, or a loss is not finite.
        """
        run = replace(
            self,
            training=self.training.complete(self.task),
            train=_pinned(self.train),
            dev=None if self.dev is None else _pinned(self.dev),
            test=tuple(map(_pinned, self.test)),
        )
        return run._run()

    def _run(self) -> dict[str, Any]:
        self._check()
        task = task_named(self.task, crf=self.training.features)
        training, development = self._english(task)
        task.prepare(training)
        tests = self._tests(task)
        encoder = self.encoder.open_transformer(self.layer, "fine-tuned")
        if encoder.languages is not None:
            raise ValueError(f"{encoder.spec.id} embeds the language, which fine-tuning does not support")
        at_least(1, max_length=self.encoder.max_length)
        room = self.encoder.max_length
        longest = min(encoder.tokenizer.max_length, encoder.model.config.longest)
        if room + sum(encoder.tokenizer.specials) > longest:
            raise ValueError(
                f"--max-length is {room}; with special tokens, {encoder.spec.id} takes at most {longest} tokens"
            )
        blocks, asked = encoder.model.config.blocks, self.training.trained_blocks
        if asked is not None and not 0 <= asked <= blocks:
            raise ValueError(f"--trained-blocks is {asked}; {encoder.spec.id} has {blocks} blocks")
        maps: Maps = {}
        if self.maps is not None:
            # Read before training, so that an error comes early.
            maps = read_maps(self.maps, encoder.spec, self._maps_prefix)
            unmapped = [name for name, (code, _) in tests.items() if code != "en" and code not in maps]
            if unmapped:
                console.print(f"{self.maps} has no matrices for {', '.join(unmapped)}; tested without")
        with locked(self.out, self.encoder.encoder):
            claim(self.out, self._config(encoder, task), ("transfer.json", "seed-*/checkpoints/[0-9]*"))
            done = agreed(self._done() if is_first() else {})
            for path in self.out.glob("seed-*/checkpoints") if is_first() else ():
                if all(seed in done for seed in _seeds_in(path.parent)):  # killed after their scores were written
                    shutil.rmtree(path)
            every = [seed for seed in self.seeds if str(seed) not in done]
            if every:
                tested = {name: self._tokenized(task, encoder, name, *own) for name, own in tests.items()}
                trainee = self._trainee(task, encoder, training, development)
                for group in map(tuple, agreed(self._groups(every))):
                    done |= self._group(trainee.for_seeds(group), encoder.spec, tested, maps)
                    told = {"task": task.name, "metric": task.metric, "encoder": encoder.spec.to_dict()}
                    told |= {"maps": self._maps_name, "seeds": done}
                    if is_first():
                        write_json(self.out / "transfer.json", told | {"lsar_jax": __version__})
                        # The parameters are large, and all that is needed from now on are the scores.
                        shutil.rmtree(self._folder(group) / "checkpoints")
            wait_for_all("trained")
        self._print(task, done)
        return read_json(self.out / "transfer.json", dict)

    @property
    def _maps_name(self) -> str:
        """What tables call the maps; empty if there are none."""
        return "" if self.maps is None else "procrustes maps" if self.closed_form else "linear maps"

    @property
    def _maps_prefix(self) -> str:
        """What the names of the maps' files begin with."""
        return "procrustes" if self.closed_form else "layer"

    def _check(self) -> None:
        self.training.check()
        if self.closed_form and self.maps is None:
            raise ValueError("--closed-form needs --maps")
        if self.maps is not None and not self.training.features:
            raise ValueError("--maps needs --features: a trained encoder has other states than the maps were fitted on")
        if not self.test:
            raise ValueError("--test needs at least one file")
        if again := [str(data) for data in self.test if self.test.count(data) > 1]:
            raise ValueError(f"--test has {again[0]} twice; give it once")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"--seeds is {' '.join(map(str, self.seeds))}; give one or more, each once")
        if wrong := [seed for seed in self.seeds if not 0 <= seed < 2**32]:
            raise ValueError(f"--seeds has {wrong[0]}; seeds must be 0 to {2**32 - 1}")
        given = {name: getattr(self, name) for name in ("most", "most_dev", "most_tested", "at_once")}
        at_least(1, held_out=self.held_out, log_every=self.log_every)
        at_least(1, **{name: value for name, value in given.items() if value is not None})

    def _english(self, task: TransferTask) -> tuple[list[Any], list[Any]]:
        """Returns the sentences to train on, and those that choose the best step."""
        training = self._in(task, self.train, "train")
        if self.dev is None:
            if len(training) <= self.held_out:
                raise ValueError(
                    f"{self.train} has {len(training)} sentences, of which --held-out takes {self.held_out}; give --dev"
                )
            # From the end, so that --most takes the same sentences with --dev and without.
            training, development = training[: -self.held_out], training[-self.held_out :]
        else:
            development = self._in(task, self.dev, "dev")
        training, development = training[: self.most], development[: self.most_dev]
        if len(training) < known(self.training.batch):
            raise ValueError(f"--batch is {self.training.batch}; it must be at most {len(training)}, all sentences")
        return training, development

    def _in(self, task: TransferTask, data: Data, part: str) -> list[Any]:
        """Returns the English sentences; a file that does not say its language is taken to be English."""
        found = task.read(data, part)
        wanted = found.get("en", found.get(""))
        if wanted is None:
            raise ValueError(f"{data} has no text in en; it has {', '.join(found)}")
        if not is_dataset(data) and "" in found and (code := language_of_file(str(data))) not in (None, "en"):
            raise ValueError(f"{data} is named after the language {code}; training is on English")
        return wanted

    def _tests(self, task: TransferTask) -> dict[str, tuple[str, list[Any]]]:
        """Returns the language and the sentences of each test, by its name."""
        tests: dict[str, tuple[str, list[Any]]] = {}
        configurations = [str(data).rpartition("#")[2] for data in self.test if is_dataset(data)]
        for data in self.test:
            for code, sentences in task.read(data, "test").items():
                if is_dataset(data):
                    name = str(data).rpartition("#")[2]
                    name = name if configurations.count(name) == 1 else str(data)
                else:
                    name = f"{Path(data).stem}.{code}" if code else Path(data).stem
                if name in tests:
                    raise ValueError(f"{data}: there is another test named {name}; rename one")
                tests[name] = (code or _language_of(Path(data)), sentences[: self.most_tested])
        return tests

    def _tokenized(
        self, task: TransferTask, encoder: SentenceEncoder, name: str, language: str, sentences: list[Any]
    ) -> _Test:
        examples = task.examples(encoder.tokenizer, sentences, language, self.encoder.max_length, training=False)
        unknown = [missing for one in examples for missing in one.labels[one.counted] < 0]
        if any(unknown):
            share = 100 * np.mean(unknown)
            console.print(f"{name}: {share:.1f}% of the labels are not in the training text; they count as wrong")
        return _Test(language, sentences, examples)

    def _config(self, encoder: SentenceEncoder, task: TransferTask) -> dict[str, Any]:
        every = (self.train, *([] if self.dev is None else [self.dev]), *self.test)
        files = {str(data): str(data) if is_dataset(data) else sha256([Path(data)]) for data in every}
        wanted = flat_options(self, _FREE) | {"encoder_spec": encoder.spec.to_dict(), "files": files}
        if self.maps is not None:
            wanted["maps_sha256"] = sha256(sorted(self.maps.glob(f"{self._maps_prefix}-*.safetensors")))
        return wanted

    def _done(self) -> dict[str, Any]:
        path = self.out / "transfer.json"
        if not path.is_file():
            return {}
        done = read_json(path, dict, ("seeds",))["seeds"]
        if not isinstance(done, dict):
            raise ValueError(f"{path} is damaged: its seeds are {done!r:.60}")
        return done

    def _trainee(
        self, task: TransferTask, encoder: SentenceEncoder, training: list[Any], development: list[Any]
    ) -> FinetuneTraining:
        options, room = self.training, self.encoder.max_length
        examples = task.examples(encoder.tokenizer, training, "en", room, training=True)
        dev = task.examples(encoder.tokenizer, development, "en", room, training=False)
        skeleton, values, frozen = take_apart(EncoderParts(encoder.model, None), False)
        asked = 0 if options.features else options.trained_blocks
        if asked is not None:
            values, frozen = split_blocks(values, encoder.model.config.blocks, asked)
        features = FeatureMix(encoder.model.config) if options.features else None
        plan = FinetunePlan(
            batch=known(options.batch), passes=known(options.epochs), validations=known(options.validations),
            layer=encoder.spec.layer, dropout=known(options.dropout), output_dropout=options.output_dropout,
            pad_id=encoder.tokenizer.pad_id,
            longest=min(encoder.tokenizer.max_length, encoder.model.config.longest),
        )  # fmt: skip
        parts = plan.parts(len(examples))
        steps = sum(parts) * plan.passes
        console.print(f"{task.name}: {len(examples)} examples of {len(training)} sentences, {steps} steps")
        rate = known(options.learning_rate)
        schedule = linear_schedule(rate, round(options.warmup * steps), steps)
        return FinetuneTraining(
            task, skeleton, values, frozen, encoder.model.config.hidden, examples, Development(development, dev), plan,
            optax.adam(schedule, b2=0.99), rate, self.seeds, data_mesh(jax.devices()), features,
        )  # fmt: skip

    def _group(
        self, trainee: FinetuneTraining, spec: EncoderSpec, tests: dict[str, _Test], maps: Maps
    ) -> dict[str, Any]:
        """Trains and tests some seeds; returns their scores."""
        seeds, task = trainee.seeds, trainee.task
        folder = self._folder(seeds)
        loop = LoopOptions(trainee.epochs, self.training.patience, self.log_every, self.checkpoint_seconds)
        console.print(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
        with console.status("") as status:
            trained = train(trainee, loop, folder, status.update if console.is_terminal else Seldom())
        if is_first():
            draw_curves(folder / "log.jsonl", f"{task.name}, {spec.id}, layer {spec.layer}", folder)
        started = time.perf_counter()
        result = {}
        for number, seed in enumerate(seeds):
            best = of_seed(trained.best, number)
            scores = {}
            for name, test in tests.items():
                predicted = trainee.predict(best, test.examples, maps.get(test.language))
                told = {"language": test.language, "n": len(test.sentences), "mapped": test.language in maps}
                scores[name] = told | task.score(test.sentences, test.examples, predicted)
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
        """Returns the seeds to train in one program; groups that have started, perhaps with other options, come first.

        A group that has started is recognised by its checkpoints.
        """
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
        names = list(next(iter(done.values()))["scores"])
        rows: list[Sequence[str | float]] = []
        for name in names:
            values = [one["scores"][name][task.metric] for one in done.values()]
            spread = f"{np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            rows.append([name, float(np.mean(values)), spread])
        english = [one["development"] for one in done.values()]
        rows.append(["development", float(np.mean(english)), f"{np.std(english, ddof=1):.1f}" if len(done) > 1 else ""])
        print_table(f"{task.metric} of {len(done)} seeds", ["test", "mean", "std"], rows)


def split_blocks(parameters: Parameters, blocks: int, trained: int) -> tuple[Parameters, Parameters]:
    """Returns the parameters of the last blocks, and all others.

    Args:
      parameters: the parameters of an encoder.
      blocks: number of its blocks.
      trained: number of the last ones to take.
    """
    kept = tuple(f"model.blocks.{block}." for block in range(blocks - trained, blocks))
    own = {name: value for name, value in parameters.items() if name.startswith(kept)}
    return own, {name: value for name, value in parameters.items() if name not in own}


def _seeds_in(folder: Path) -> list[str]:
    """Returns the seeds that a folder is named after."""
    return folder.name.split("-")[1:]


def _pinned(data: Data) -> Data:
    """Returns ``hub:ID#CONFIG`` with the commit that it currently resolves to; other data unchanged."""
    if not is_dataset(data):
        return data
    place, mark, config = str(data).partition("#")
    return f"{pin(place)}{mark}{config}"


def _language_of(path: Path) -> str:
    if (code := language_of_file(path)) is None:
        raise ValueError(
            f"{path} is not named after its language, as in de_pud-ud-test.conllu or dev-de.tsv; rename it"
        )
    return code
