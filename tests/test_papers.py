"""docs/reference/papers.md names every table and figure, and the cards run what the tables' protocols say."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs.extensions.papers import papers_page
from eval.papers.card import CARDS, PAPERS, PaperSetting
from eval.papers.plan import CardOptions, plan_step
from eval.papers.published import PROTOCOLS, PUBLISHED, items_of
from eval.papers.sources import SOURCES
from lsar_jax.checkpoints.presets import PRESETS
from tests.commands import parsed
from tests.optional import need
from train.finetune.conllu_ner_xnli import language_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
EVALUATION = (ROOT / "docs" / "reference" / "evaluation.md").read_text(encoding="utf-8")
# The tables and figures with results, by paper.
ITEMS = {
    "Xie et al. 2022": {*(f"Table {n}" for n in range(1, 21)), *(f"Figure {n}" for n in range(2, 8))},
    "Ki et al. 2024": {*(f"Table {n}" for n in (2, 3, 4, 8, 9, 10, 11)), *(f"Figure {n}" for n in range(3, 17))},
    "Wu and Dredze 2020": {f"Table {n}" for n in (1, 2, 3, 4)},
    "Hämmerl et al. 2023": {*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in range(1, 5))},
}


with (ROOT / "eval/papers/published.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


def training():
    """Training in the text of Ki et al.: rate, batch, epochs, patience, languages, shares to validate and held out."""
    said = {row["metric"]: row["value"] for row in ROWS if row["paper"].startswith("Ki")}
    names = ("learning rate (Adam)", "batch", "most iterations", "patience", "language pairs")
    pairs = ("pairs sampled for each", "pairs for training, each", "pairs for testing, each")
    sampled, trained, held_out = (float(said[f"{of} language"]) for of in pairs)
    return (*(float(said[name]) for name in names), (sampled - trained - held_out) / sampled, held_out / sampled)


TRAINING = training()
OF_HEADS = {"trained_on": "data/oracle", "learning_rate": TRAINING[0], "batch": TRAINING[1]}
# The tokens that an encoder's checkpoint takes; those of the others are 512.
LENGTHS = {"LaBSE": 256, "S-BERT": 128}
# The last layer of an encoder of Ki et al., if it is not the twelfth.
LAYERS_OF_KI = {"laser1": 5}
# The languages that Wu and Dredze average over.
NINE = {"ar", "de", "en", "es", "fr", "hi", "ru", "vi", "zh"}


def test_the_page_is_what_the_cards_say():
    same = papers_page(PAGE) == PAGE
    assert same, "write it anew: python -m docs.extensions.papers"


def test_commands_parse():
    need("optax")
    for command in set(re.findall(r"`(python -m [^`]+)`", PAGE)):
        parsed(command)


def folder_of(method):
    """The folder, below that of train.ablations, of a row's objective; None of a method without heads."""
    objective = method.partition("objective=")[2]
    name = objective.replace(" - ", " without ")
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-") if objective else None


def measures(planned, number):
    """Whether a command measures a number that may stand beside ours."""
    step, command = planned.step, planned.command
    if step.task == "leakage":
        # The held-out pairs are those of the text that the heads were trained on.
        where = {"tatoeba": "tatoeba", "sts17": "sts17", "code-switch": "tatoeba"}.get(number.task)
        options = {"data": str(getattr(command, where)) if where else CARDS["ki-table-3"].steps[0].options["data"]}
        right = number.method == "original" or folder_of(number.method) in {Path(run).name for run in command.runs}
        options |= OF_HEADS
    elif step.task == number.task:
        options = {name: getattr(command, name, None) for name in (*number.quantity.options, "pooling")}
        options |= {"data": str(options.get("data"))}
        name, _, parameter = number.method.partition(" ")
        name, _, value = name.partition("=")
        key, _, amount = parameter.partition("=")
        given = {"rank": command.ranks, "components": command.components}.get(key, ())
        full = {"tatoeba": 36, "geometry": 36, "lareqa": number.quantity.languages - 1}.get(step.task)
        right = name in command.transforms and (not key or amount in map(str, given or [full]))
        right &= name != "zero" or value in command.zero
        fit, text = number.quantity.fit.lower().replace("-", ""), command.fit_on.lower().replace("-", "")
        right &= name in ("original", "zero") or fit in text
        right &= command.pooling in (None, number.quantity.options.get("pooling"))
        right &= ", dot" not in number.metric or "dot" in command.metrics
        right &= "precomputed" not in number.metric or command.uriel is not None
        right &= step.task != "bitext" or command.held_out == (number.quantity.n or TRAINING[-1])
        if step.task == "lareqa":
            source = SOURCES[step.data[0]]
            right &= (str(command.data), number.quantity.languages) == (source.path, len(source.languages))
    elif step.task == "transfer":
        options, task = number.quantity.options, number.task.removeprefix("transfer-")
        runs = [folder.as_posix() for folder in command.folders if folder.match(f"{task}/{number.method}")]
        right = bool(runs) and (number.method == "original" or number.quantity.fit.lower() in runs[0])
    elif step.task == "examples":
        options, [language, part] = number.quantity.options, number.metric.split()[-1].split("-")
        codes = {language_of(data) for data in (command.test if part == "test" else [getattr(command, part)])}
        right = number.task == f"transfer-{command.task}" and language in codes
    else:
        return False
    if number.task == "sts17":
        # Hämmerl et al.'s tracks have the names of the task's files, Ki et al.'s those of the Hub's dataset.
        data = str(command.sts17 if step.task == "leakage" else command.data)
        right &= number.metric.startswith("Spearman") == data.startswith("hub:")
    wanted = number.quantity.options
    shown = any(re.fullmatch(pattern, f"{number.task} {number.metric}") for pattern in step.metrics)
    layers = getattr(command, "layers", ()) or planned.setting.layers
    return (
        right
        and shown
        and number.layer in (None, *layers)
        and all(options.get(name) == wanted[name] for name in wanted)
    )


def test_what_deviates_is_named():
    states = {name: card.state for name, card in CARDS.items() if card.state.startswith("deviates")}
    assert "Stanford" in states.pop("wu-dredze-tables-1-3-4")
    assert {*states.values()} == {"deviates because towers are trained anew"}
    assert "its code contradicts" in CARDS["xie-table-3"].shows


def mistakes(card):
    """Differences between a card and its tables, their protocols or their numbers."""
    items = items_of(card.items)
    numbers = [number for number in PUBLISHED if number.paper == card.paper and {*items} & {*items_of(number.table)}]
    tables = [item for item in items if item.startswith("Table")]
    found = [f"no {item}" for item in tables if (card.paper, item) not in PROTOCOLS]
    if not re.fullmatch("right|by the code|(deviates|missing) because .+", card.state):
        found.append(f"state {card.state!r}")
    protocols = " ".join(PROTOCOLS.get((card.paper, item), "") for item in tables)
    own = [number for number in numbers if not re.search("quotes|equals LaBSE", number.other)]
    named = {setting.name for step in card.steps for setting in step.encoders.values()} - {""}
    if numbers and named != {number.encoder for number in own} - {""}:
        found.append(f"encoders {named}")
    commands = [
        (setting.name, planned)
        for step in card.steps
        # Numbers of text have no encoder.
        for key, setting in (step.encoders or {"": PaperSetting()}).items()
        for planned in [plan_step(step, CardOptions(encoder=key or "bundled"), Path("out"))]
        if (setting.name or not step.encoders) and planned.command is not None
    ]
    for number in own:
        of_encoder = [planned for name, planned in commands if name == number.encoder]
        if not number.other and not any(measures(planned, number) for planned in of_encoder):
            found.append(f"no command measures {number.encoder}, {number.method}, {number.metric}")
        folder = folder_of(number.method)
        runs = {Path(run).name for planned in of_encoder for run in getattr(planned.command, "runs", ())}
        if folder and folder not in runs:
            found.append(f"no run of {number.method}")
    # Nothing that the tables do not have.
    for name, planned in commands:
        aligned = {folder.name for folder in getattr(planned.command, "folders", ())} - {"features"}
        found += [f"{name}: {one}" for one in aligned - {n.method for n in own if n.encoder == name}]
    for option, name in (("ranks", "rank"), ("components", "components")):
        theirs = {int(n.method.rpartition("=")[2]) for n in own if f" {name}=" in n.method and not n.other}
        ours = {value for _, planned in commands for value in getattr(planned.command, option, ())}
        if theirs and not ours <= theirs:
            found.append(f"{option} {sorted(ours - theirs)}")
    for step in card.steps:
        for key, setting in step.encoders.items():
            named_layers = {n.layer for n in own if n.encoder == setting.name and n.task == step.task} - {None}
            last = re.search("output layer|last in the code", protocols)
            preset = PRESETS[key].layer if key in PRESETS and numbers else None
            preset = LAYERS_OF_KI.get(key, 12) if card.paper.startswith("Ki") else preset
            right = named_layers or ({12} if last else {preset} - {None})
            if setting.name and setting.layers and right and {*setting.layers} != right:
                found.append(f"{step.task}, {setting.name}: layers {setting.layers}, not {right}")
        codes = {code for n in own for code in re.findall(r"\ben-([a-z]{2})\b", n.metric)} - {"xx"}
        if codes and {*step.options.get("languages", codes)} != codes:
            found.append(f"languages {step.options['languages']}")
    for name, planned in commands:
        tokens, right = getattr(planned.command, "max_length", None), (None, LENGTHS.get(name, 512))
        if tokens not in right:
            found.append(f"{planned.step.task}, {name}: {tokens} tokens")
        if "{paragraph}" not in getattr(planned.command, "answer_text", "{paragraph}"):
            found.append(f"{planned.step.task}: {planned.command.answer_text} without the paragraph")
    of_first = [plan_step(step, CardOptions(), Path("out")) for step in card.steps]
    for number in numbers:
        if best := re.match("best ([kr]);", number.metric):
            option = {"k": "components", "r": "ranks"}[best[1]]
            if not all(number.value in getattr(planned.command, option) for planned in of_first):
                found.append(f"{option} without {number.value}")
    return (
        found
        + [mistake for step in card.steps for mistake in study_mistakes(step)]
        + (training_mistakes(card) if card.paper.startswith("Ki") else [])
    )


def study_mistakes(step):
    """What a training of Wu and Dredze's study does not do as they did: languages, seeds, tokens, and its bitext."""
    if step.task not in ("train.word_pairs", "train.align", "train.finetune"):
        return []
    run, found = parsed(plan_step(step, CardOptions(), Path("out")).line), []
    if step.task == "train.word_pairs":
        drawn = run.text.sample, run.text.split_seed, run.text.held_out, run.text.validation
        right = Path(run.text.data).name in step.makes and drawn == (1_002_000, 42, 2_000, 0)
        if {*run.text.languages, "en"} != NINE or not right:
            found.append(f"word pairs of {run.text}")
    elif step.task == "train.align":
        if run.encoder.max_length != 96 or run.text.words.name != f"words-{run.out.parent.name}":
            found.append(f"alignment on {run.text.words}, {run.encoder.max_length} tokens, in {run.out}")
        options = run.options.complete(run.objective, 1)
        theirs = next(number.quantity.options for number in PUBLISHED if number.method == run.objective)
        ours = {f"alignment_{name}": getattr(options, name) for name in ("steps", "batch", "learning_rate")}
        if not ours.items() <= theirs.items():
            found.append(f"alignment by {ours}")
    elif {*map(language_of, run.text.test)} != NINE or len(run.seeds) != 5 or run.encoder.max_length != 128:
        found.append(f"fine-tuning of {run.seeds}, {run.encoder.max_length} tokens, on {run.text.test}")
    elif run.out.parent.name != run.task or run.training.features != (run.out.name in ("features", "linear")):
        found.append(f"{run.task} in {run.out}")
    return found


def training_mistakes(card):
    """Differences between the training of heads and Ki et al., and the heads that are read but not trained."""
    found, bases = [], set()
    for step in (*card.steps, *card.trained_by):
        for key, setting in step.encoders.items() if step.task == "train.ablations" else ():
            run = parsed(plan_step(step, CardOptions(encoder=key), Path("out")).line)
            bases |= {*run.bases}
            used = (run.learning_rate, run.batch, run.loop.epochs, run.loop.patience, len(run.text.languages))
            used += (run.text.validation, run.text.held_out)
            if used != TRAINING:
                found.append(f"trained by {used}")
            how = (run.layers, run.encoder.pooling, run.encoder.max_length, str(run.text.data))
            pooling = None if key == "laser1" else "pooler"
            if how != ((LAYERS_OF_KI.get(key, 12),), pooling, LENGTHS.get(setting.name, 512), OF_HEADS["trained_on"]):
                found.append(f"{key}: trained by {how}")
    said = {row["value"] for row in ROWS if re.fullmatch(r"sec. 6.[12] text", row["table"])} | {"0.001"}
    if "Section" in card.items and (others := {*re.findall(r"-?\d+\.\d+", card.shows)} - said):
        found.append(f"{others} are not in the text")
    four = {folder_of(number.method) for number in PUBLISHED if (number.paper, number.table) == (card.paper, "Table 3")}
    for step in card.steps:
        if step.task == "leakage":
            names = {Path(run).name for run in step.options["runs"]}
            read = {re.match("dream|meat|oracle", name)[0].replace("oracle", "none") for name in names}
            found += [f"no training of {base}" for base in read - bases]
            shows = {
                "Figure 3": "held-out.png" in step.figures, "Figure 6": "oracle-paper" in names,
                "Figures 7 to 16": " ".join(step.options.get("pictures", ())) == "ar ay de es gn it ja nl pt ro",
            }  # fmt: skip
            if not shows.get(card.items, True):
                found.append(f"another drawing than {card.items}")
            if "Figure" in card.items and not names >= four:
                found.append(f"no panels of {four - names}")
    return found


@pytest.mark.parametrize("name", CARDS)
def test_cards_run_what_their_tables_say(name):
    card = CARDS[name]
    kind, items = card.items.split()[0].lower(), re.findall(r"\d+", card.items)
    assert card.name.endswith(f"-{kind}-{'-'.join(items)}")
    assert mistakes(card) == []


def changed(name, number=0, **options):
    """A card with other options in one of its commands."""
    steps = list(CARDS[name].steps)
    paper = {key: value for key, value in steps[number].paper.items() if key not in options}
    steps[number] = replace(steps[number], options={**steps[number].options, **options}, paper=paper)
    return replace(CARDS[name], steps=tuple(steps))


def step_changed(name, **fields):
    return replace(CARDS[name], steps=tuple(replace(step, **fields) for step in CARDS[name].steps))


def trained_otherwise(**options):
    [training] = CARDS["ki-table-8"].trained_by
    return replace(CARDS["ki-table-8"], trained_by=(replace(training, options={**training.options, **options}),))


ENCODERS = dict(CARDS["xie-table-1"].steps[0].encoders)


@pytest.mark.parametrize(
    "card",
    [
        replace(CARDS["xie-table-1"], items="Table 21"),
        replace(CARDS["xie-table-1"], state=""),
        replace(CARDS["xie-table-1"], state="deviates"),  # without its reason
        replace(CARDS["xie-table-6"], steps=CARDS["xie-table-7"].steps),  # fitted on OSCAR
        step_changed("xie-table-1", encoders=ENCODERS | {"xlm-100": PaperSetting("XLM", (8,))}),
        changed("xie-tables-8-11", components=(1, 5, 10, 17)),
        changed("xie-table-2", metrics=("cosine",)),
        step_changed("xie-table-2", paper={"fit_on": "text/oscar", "max_length": 512}),  # answers alone
        changed("ki-table-10", runs=CARDS["ki-table-10"].steps[0].options["runs"][:1]),
        changed("ki-table-2", languages=("de", "fr")),
        changed("wu-dredze-tables-1-3-4", data="data/opus-100"),
        changed("wu-dredze-tables-1-3-4", sample=500_000),
        step_changed("wu-dredze-tables-1-3-4", encoders={"xlm-r-large": PaperSetting("XLM-R large")}),
        changed("wu-dredze-table-2", test=("de.conllu", "en.conllu")),
        changed("ki-table-8", 1, held_out=500),
        trained_otherwise(learning_rate="1e-4"),
        trained_otherwise(validation=0.05),  # fewer than 450,000 pairs train
        step_changed("ki-figure-3", figures=("leakage.png",)),  # Tatoeba
        changed("ki-figure-6", runs=CARDS["ki-figure-3"].steps[0].options["runs"]),
        changed("ki-figures-7-16", pictures=("ar", "de", "es", "fr", "it", "ja", "nl", "pt", "ro")),
        replace(CARDS["ki-sections-6-1-6-2"], shows="gap of directions (LaBSE 0.16)"),
    ],
)  # fmt: skip
def test_a_card_that_says_another_thing_is_noticed(card):
    assert mistakes(card)


def test_evaluation_page_says_the_same_of_data():
    for key in ("tatoeba", "xquad-r", "sts17", "bucc", "amazon"):
        assert f"`{SOURCES[key].path}`: {SOURCES[key].where}" in EVALUATION


def test_every_table_and_figure_has_a_card_or_a_reason():
    without = {(paper.name, item) for paper in PAPERS for items in paper.not_run for item in items_of(items)}
    assert PROTOCOLS.keys() <= {(paper, name) for paper, names in ITEMS.items() for name in names} | without
    assert all(card.shows and card.here and card.verdict for card in CARDS.values())
