r"""Wu and Dredze's study: aligns an encoder by several objectives, and measures their transfer over tasks and seeds.

    python -m train.word_pairs --data data/multiun --out results/words-multiun
    python -m eval study --encoder mbert --words results/words-multiun --out results/study

"Do Explicit Alignments Robustly Improve Multilingual Encoders?", EMNLP 2020, asks for several seeds and tasks, with a
difference shown only beyond one standard deviation of the encoder that was not aligned. This trains ``train.align`` for
each objective, and ``train.finetune`` for each task, encoder and seed; then ``python -m eval transfer`` prints a table
of each task and one of the means (Table 1 of the paper, and Tables 3 and 4), and writes ``results.jsonl``. ``linear``
is tested on frozen features, and the rows ``features`` are those without its maps. The defaults are the paper's, and
so is the text: UD 2.6 as it is unpacked, WikiAnn and XNLI from the Hub.

Before it trains, it prints the number of examples of each part of the text (Table 2). To resume a killed run, repeat
the same command: every training goes on where it stopped, and those that have ended are not repeated.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from eval.report.transfer import transfer_results
from lsar_jax.console.output import console, print_table
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from lsar_jax.measures.results import Result, write_results
from lsar_jax.measures.run_record import recorded
from lsar_jax.options.encoder import EncoderOptions
from train.align.__main__ import Align
from train.align.options import AlignOptions, Objective
from train.finetune.__main__ import Finetune
from train.finetune.conllu_ner_xnli import language_of
from train.finetune.tasks import TASKS
from train.finetune.training import FinetuneOptions

__all__ = ["LANGUAGES", "TREEBANKS", "Study", "Texts"]

# Those that the paper averages over.
LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "ru", "vi", "zh")
# The paper's treebanks, whose numbers of sentences are those of its Table 2.
TREEBANKS = {
    "ar": "Arabic-PADT", "de": "German-GSD", "en": "English-EWT", "es": "Spanish-GSD", "fr": "French-GSD",
    "hi": "Hindi-HDTB", "ru": "Russian-GSD", "vi": "Vietnamese-VTB", "zh": "Chinese-GSD",
}  # fmt: skip


@dataclass(frozen=True)
class Texts:
    """The text of a task.

    Attributes:
      train: English text to train on: a file, hub:ID#CONFIG or tfds:NAME#CONFIG.
      dev: English text that chooses the best step.
      test: text to test on; the language is part of a file's or a configuration's name.
    """

    train: Data
    dev: Data
    test: tuple[Data, ...]


def _hub(name: str) -> Texts:
    """The current commit of a dataset on the Hub, which every training records."""
    english, *tests = (f"hub:{name}@main#{code}" for code in ("en", *LANGUAGES))
    return Texts(english, english, tuple(tests))


def _treebanks() -> Texts:
    """The paper's treebanks, where the archive of UD 2.6 is unpacked in ``data``."""
    folder = Path("data/ud-treebanks-v2.6")
    train, dev, *tests = (
        folder / f"UD_{TREEBANKS[code]}" / f"{code}_{TREEBANKS[code].partition('-')[2].lower()}-ud-{part}.conllu"
        for code, part in (("en", "train"), ("en", "dev"), *((code, "test") for code in LANGUAGES))
    )
    return Texts(train, dev, tuple(tests))


@dataclass(frozen=True)
class Study:
    """Aligns an encoder by several objectives, and measures their transfer over tasks, languages and seeds.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      words: word pairs to align on: a folder that python -m train.word_pairs wrote.
      objectives: how to align.
      tasks: what to train on English.
      languages: codes of the languages to test, and to align with English.
      seeds: random seeds of the tasks; an encoder is aligned once.
      xnli: text of xnli.
      ner: text of ner, whose Chinese characters are joined to words.
      ud: text of pos and parsing.
      align: how l2, weak and strong are trained.
      linear: how linear is trained.
      finetune: how the tasks are trained, with the encoder.
      features: how the tasks are trained on frozen features, for linear.
      max_length: maximum number of tokens per sentence in the tasks, without special ones; of words in tested parses.
      align_length: maximum number of tokens per sentence in alignment.
      dtype: dtype of the encoder, float32 or bfloat16.
      most: largest number of training sentences of a task, the first of the text; by default all.
      most_dev: largest number of its development sentences; by default all.
      most_tested: largest number of sentences of each test language; by default all.
      count: only count the examples of each part of the text.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
      out: folder of the results, and of a folder for each training.
      overwrite: replace results that are from other options; trainings are never replaced.
    """

    encoder: str = "bundled"
    words: Path = Path("results/word-pairs")
    objectives: tuple[Literal["linear", "l2", "weak", "strong"], ...] = ("linear", "l2", "weak", "strong")
    tasks: tuple[Literal["xnli", "ner", "pos", "parsing"], ...] = ("xnli", "ner", "pos", "parsing")
    languages: tuple[str, ...] = LANGUAGES
    seeds: tuple[int, ...] = Finetune.seeds
    xnli: Texts = field(default_factory=lambda: _hub("facebook/xnli"))
    ner: Texts = field(default_factory=lambda: _hub("unimelb-nlp/wikiann"))
    ud: Texts = field(default_factory=_treebanks)
    align: AlignOptions = field(default_factory=AlignOptions)
    linear: AlignOptions = field(default_factory=AlignOptions)
    finetune: FinetuneOptions = field(default_factory=FinetuneOptions)
    features: FinetuneOptions = field(default_factory=FinetuneOptions)
    max_length: int = 128
    align_length: int = 96
    dtype: Literal["float32", "bfloat16"] = "float32"
    most: int | None = None
    most_dev: int | None = None
    most_tested: int | None = None
    count: bool = False
    checkpoint_seconds: float = 300.0
    out: Path = Path("results/study")
    overwrite: bool = False

    # What --help shows.
    essential = ("encoder", "words", "objectives", "tasks", "languages", "seeds", "max_length", "most", "count", "out")

    def run(self) -> list[Result]:
        """Trains what is not trained yet, prints the tables, and writes ``results.jsonl``."""
        for name in ("objectives", "tasks", "languages", "seeds"):
            values = self._codes if name == "languages" else getattr(self, name)
            if not values or len({*values}) < len(values):
                raise ValueError(f"--{name} is {' '.join(map(str, values))}; give one or more, each once")
        if self._codes == ("en",):
            raise ValueError("--languages is en; give others too, which are aligned with it")
        with recorded(self):
            examples = self._examples()
            if self.count:
                write_results(examples, self.out / "results.jsonl")
                return examples
            # Aligning takes long, and what is wrong with the options of fine-tuning would be said after it.
            opened = None
            for task in self.tasks:
                for features in {False, "linear" in self.objectives}:
                    checked = self._finetuning(task, "original", self.encoder, None, features=features)
                    opened = checked.check(opened)
            # The encoder that is not aligned comes first, as what the others are compared with.
            rows: dict[str, tuple[str, Path | None]] = {"original": (self.encoder, None)}
            rows |= {objective: self._aligned(objective) for objective in self.objectives}
            folders = []
            for task in self.tasks:
                for name, (encoder, maps) in rows.items():
                    if maps:
                        folders.append(self._finetuned(task, "features", encoder, None, features=True))
                    folders.append(self._finetuned(task, name, encoder, maps, features=maps is not None))
            return transfer_results(folders, self.out, self.seeds)

    @property
    def _codes(self) -> tuple[str, ...]:
        return tuple(map(language_code, self.languages))

    def _text(self, task: str) -> Texts:
        return {"xnli": self.xnli, "ner": self.ner}.get(task, self.ud)

    def _tests(self, task: str) -> tuple[Data, ...]:
        """The text to test on, without that of languages that are not tested."""
        return tuple(data for data in self._text(task).test if language_of(data) in ("", *self._codes))

    def _examples(self) -> list[Result]:
        """Counts and prints the examples of each part of the text of each task; early, as this reads all of it."""
        counts: dict[str, dict[str, int]] = {}
        for task in self.tasks:
            text, read = self._text(task), TASKS[task].read
            of_task = counts.setdefault(task, {})
            for part, data, most in (("train", text.train, self.most), ("dev", text.dev, self.most_dev)):
                found = read(data, part)
                if not (english := found.get("en", found.get(""))):
                    raise ValueError(f"{data} has no text in en; it has {', '.join(found)}")
                of_task[f"en-{part}"] = len(english[:most])
            tested = [found for data in self._tests(task) for found in read(data, "test").items()]
            for code in self._codes:
                sizes = [len(sentences[: self.most_tested]) for other, sentences in tested if other == code]
                if not sizes:
                    raise ValueError(f"the text to test {task} on has none in {code}; omit it from --languages")
                of_task[f"{code}-test"] = sum(sizes)
        rows = [[part, *(f"{of_task[part]:,}" for of_task in counts.values())] for part in counts[self.tasks[0]]]
        print_table("Number of examples", ["", *counts], rows)
        return [
            Result(
                task=f"transfer-{task}", languages=(part.partition("-")[0],), encoder="", revision="", layer=0,
                pooling="", dtype="", max_length=0, transform="", parameters={}, fitted_on="",
                metric=f"examples {part}", value=float(count), n=count, seed=None, seconds=0.0,
            )
            for task, of_task in counts.items()
            for part, count in of_task.items()
        ]  # fmt: skip

    def _aligned(self, objective: Objective) -> tuple[str, Path | None]:
        """Aligns the encoder; returns the one to train on, and the folder of the maps that change its features."""
        linear, out = objective == "linear", self.out / "align" / objective
        languages = tuple(code for code in self._codes if code != "en")
        console.rule(f"{out}")
        Align(
            objective=objective, words=self.words, text=replace(Align().text, languages=languages),
            encoder=EncoderOptions(encoder=self.encoder, dtype=self.dtype, max_length=self.align_length),
            options=self.linear if linear else self.align, checkpoint_seconds=self.checkpoint_seconds, out=out,
        ).run()  # fmt: skip
        return (self.encoder, out) if linear else (str(next(out.glob(f"*-{objective}"))), None)

    def _finetuned(self, task: str, name: str, encoder: str, maps: Path | None, *, features: bool) -> Path:
        """Trains and tests all seeds; returns the folder of their scores."""
        console.rule(f"{self.out / task / name}")
        finetuning = self._finetuning(task, name, encoder, maps, features=features)
        finetuning.run()
        return finetuning.out

    def _finetuning(self, task: str, name: str, encoder: str, maps: Path | None, *, features: bool) -> Finetune:
        text = self._text(task)
        return Finetune(
            task=task, train=text.train, dev=text.dev, test=self._tests(task), languages=self._codes,
            chinese_words=task == "ner" and "zh" in self._codes, maps=maps, seeds=self.seeds,
            encoder=EncoderOptions(encoder=encoder, dtype=self.dtype, max_length=self.max_length),
            training=replace(self.features if features else self.finetune, features=features), most=self.most,
            most_dev=self.most_dev, most_tested=self.most_tested, checkpoint_seconds=self.checkpoint_seconds,
            out=self.out / task / name,
        )  # fmt: skip
