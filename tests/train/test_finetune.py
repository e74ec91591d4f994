"""Transfer: planted tasks that are learnt, and a run that is stopped."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import lsar_jax as lj
from lsar_jax.mesh import data_mesh
from lsar_jax.transforms.methods.linear_map import linear_maps
from tests.compilations import count_compilations
from tests.conftest import TINY
from tests.models.test_dropout import TRAINED
from tests.parity import GOLDEN
from tests.train.runs import labelled, log_of, stop_at, write_labelled
from train.encoder_parameters import EncoderParts, take_apart
from train.finetune.__main__ import main
from train.finetune.conllu_ner_xnli import TaggedSentence
from train.finetune.features import FeatureMix
from train.finetune.options import FinetuneOptions
from train.finetune.task import ExampleOptions, TransferTask
from train.finetune.tasks import TASKS
from train.finetune.text import LabelledText, TaskText, TextChoice, labelled_tests, tokenized
from train.finetune.training import FinetuneTraining, pass_order, split_blocks
from train.training_task import Steps


def training(
    task, seed, devices=4, *, most=96, passes=2, optimizer=None, dropout=0.1, batch=16, features=False, folder=TINY
):
    """A planted task, and its training with the first block of the tiny encoder."""
    encoder = lj.load_encoder(str(folder), layer=1, mesh=data_mesh(jax.devices()[:devices]))
    sentences, dev, task = labelled(task, most), labelled(task, 24, 1), TASKS[task]
    labels = task.labels(sentences)

    def examples(sentences, training):
        made = ExampleOptions(encoder.tokenizer, "en", 20, labels, training, encoder.model.causal)
        return task.examples(sentences, made)

    text = TaskText(task, labels, examples(sentences, True), LabelledText("en", dev, examples(dev, False)))
    options = FinetuneOptions(features=features, batch=batch, epochs=passes, validations=2, dropout=dropout)
    return FinetuneTraining(text, encoder, options.complete(task), optimizer or optax.sgd(0.1), seed, encoder.mesh)


def run(trainee, epochs=4):
    """Trains without the loop; returns the state, the losses, and the error at the end."""
    state, losses = trainee.start(), []
    for epoch in range(epochs):
        state, terms = trainee.steps(state, Steps(trainee.order(state, epoch), epoch, 0, np.ones(1, bool)))
        losses.extend(np.asarray(terms["loss"][0]))
    return state, np.array(losses), float(trainee.validate(state)["error"][0])


LEARNT = {"most": 192, "passes": 6, "optimizer": optax.adam(3e-3), "dropout": 0.0}
# A decoder has other tokens for words and their root.
PLANTED = [(task, "bert") for task in ("pos", "xnli", "parsing")] + [
    pytest.param("parsing" if name in ("qwen3", "gemma3-causal") else task, name, marks=pytest.mark.slow)
    for name, task in zip(TRAINED[1:], ("pos", "xnli") * 3, strict=True)
]


@pytest.mark.usefixtures("no_dropout")
@pytest.mark.parametrize(("task", "name"), PLANTED)
def test_a_planted_task_is_learnt(task, name):
    trainee = training(task, 3, 1, **LEARNT, folder=GOLDEN / name)
    before = float(trainee.validate(trainee.start())["error"][0])
    _, losses, error = run(trainee, 12)
    assert losses[-6:].mean() < 0.5 * losses[0]
    limits = {"pos": 3, "xnli": 30, "parsing": 30}
    assert error < min(limits[task], 0.7 * before)


@pytest.fixture
def no_dropout(monkeypatch):
    """No dropout of the output either."""
    monkeypatch.setattr("train.finetune.training._OUTPUT_DROPOUT", 0.0)


@pytest.fixture
def one_block(monkeypatch):
    """One block on top of the mix of layers instead of four, which take four times as long to compile."""
    monkeypatch.setattr("train.finetune.features._BLOCKS", 1)


@pytest.mark.usefixtures("one_block", "no_dropout")
def test_a_planted_task_is_learnt_from_features():
    """The encoder stays as it is; tags are decoded by a conditional random field."""
    trainee = training("ner", 3, **LEARNT, features=True)
    state, losses, error = run(trainee, 12)
    assert losses[-6:].mean() < 0.3 * losses[0]
    assert error < 10
    assert not state["parameters"]["encoder"]
    assert state["parameters"]["head"]["task"]["transitions"].between.shape == (5, 5)


def test_maps_are_applied_to_every_layer(rng):
    """A mix of mapped states is what the mix makes of states that were mapped before."""
    config = lj.load_encoder(str(TINY)).model.config
    mix = FeatureMix(config)
    init = jax.jit(mix.init)
    parameters = init(jax.random.key(0)) | {"mix": jnp.asarray(rng.standard_normal(4), jnp.float32)}
    states = [jnp.asarray(rng.standard_normal((2, 5, 32)), jnp.float32) for _ in range(4)]
    maps = jnp.asarray(rng.standard_normal((4, 32, 32)), jnp.float32)
    lengths = jnp.array([[5], [3]])
    mix = jax.jit(mix)
    plain = mix(parameters, states, lengths, None)
    mapped = mix(parameters, states, lengths, None, maps)
    before = mix(parameters, [x @ w.T for x, w in zip(states, maps, strict=True)], lengths, None)
    np.testing.assert_allclose(mapped, before, atol=1e-4)
    assert np.abs(np.asarray(mapped - plain)).max() > 0.1


def test_other_seeds_need_no_compilation():
    trainee = training("pos", 1)
    _, before, _ = run(trainee, 1)
    with count_compilations() as compiled:
        _, losses, _ = run(trainee.for_seed(3), 1)
    assert not compiled
    assert np.abs(losses - before).max() > 1e-3


def test_one_device_is_four():
    one, four = (run(training("parsing", 3, devices, most=32), 1) for devices in (1, 4))
    np.testing.assert_allclose(one[1], four[1], rtol=1e-5)
    assert one[2] == pytest.approx(four[2], abs=1e-4)


def test_batches_of_a_pass_hold_each_example_once():
    lengths = np.random.default_rng(0).integers(3, 30, 103)
    order = pass_order(1, 0, lengths, 4)
    assert order.shape == (25, 4)
    assert len(set(order.ravel().tolist())) == 100
    assert FinetuneOptions(batch=4, validations=3).parts(103) == [9, 8, 8]
    assert np.ptp(lengths[order], axis=1).mean() < 0.3 * np.ptp(lengths)
    assert (pass_order(1, 1, lengths, 4) != order).any()


def command(folder, out, task, *more):
    files = ["--train", write_labelled(folder, task, "train-en", 64, 0)]
    files += ["--test", write_labelled(folder, task, "test-de", 12, 2)]
    if task == "pos":
        files += ["--dev", write_labelled(folder, task, "dev-en", 12, 1)]
    short = ["--layer", "1", "--epochs", "1", "--batch", "8", "--validations", "2", "--max-length", "20"]
    return ["--task", task, "--encoder", str(TINY), *files, *short, "--held-out", "12", "--out", str(out), *more]


def test_what_is_written(tmp_path, capsys, refused):
    task, out = "xnli", tmp_path / "out"
    assert main(command(tmp_path, out, task, "--seeds", "12", "8")) == 0
    transfer = json.loads((out / "transfer.json").read_text())
    assert (transfer["task"], set(transfer["seeds"])) == (task, {"12", "8"})
    names = {"x.test-de.en": "en", "x.test-de.de": "de"}
    for seed in transfer["seeds"].values():
        assert {name: score["language"] for name, score in seed["scores"].items()} == names
        assert all(0 <= score[transfer["metric"]] <= 100 for score in seed["scores"].values())
        assert seed["validations"] == 2
    assert (out / "seed-12" / "curves.png").is_file()
    assert not (out / "seed-12" / "checkpoints").exists()
    # Another seed is added; those that are done are not done again, and what a killed run left of them goes.
    left, log = out / "seed-12" / "checkpoints", out / "seed-12" / "log.jsonl"
    (left / "1").mkdir(parents=True)
    written = log.stat().st_mtime_ns
    assert main(command(tmp_path, out, task, "--seeds", "12", "8", "9")) == 0
    again = json.loads((out / "transfer.json").read_text())["seeds"]
    assert (again["12"], set(again)) == (transfer["seeds"]["12"], {"12", "8", "9"})
    assert log.stat().st_mtime_ns == written
    assert not left.exists()
    shown = " ".join(capsys.readouterr().out.split())
    for seed, end in again.items():
        assert f"of seed {seed}: {next(iter(end['scores']))} " in shown
    error = refused(main, [*command(tmp_path, out, task, "--seeds", "12"), "--dropout", "0.3"])
    assert "belongs to another run: dropout was 0.1 and is now 0.3; choose another --out" in error


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_to_the_same_scores(tmp_path):
    more = ["--most", "24", "--epochs", "2", "--learning-rate", "1e-3", "--seeds", "12", "8", "--trained-blocks", "1"]
    whole, out = tmp_path / "whole", tmp_path / "stopped"
    assert main(command(tmp_path, whole, "pos", *more)) == 0
    expected = (whole / "transfer.json").read_text()
    at = np.random.default_rng().integers(2, 8)  # anywhere
    print(f"stopped after {at} lines of the second log")
    stopped = command(tmp_path, out, "pos", *more, "--checkpoint-seconds", "0")
    stop_at(main, stopped, out / "seed-8" / "log.jsonl", at)
    assert main(command(tmp_path, out, "pos", *more)) == 0
    assert (out / "transfer.json").read_text() == expected
    for seed in ("seed-12", "seed-8"):
        assert log_of(out / seed) == log_of(whole / seed)


def test_the_best_step_is_tested_rather_than_the_last(tmp_path, monkeypatch):
    """The second pass spoils the encoder; the development text is also tested, and has the best score again."""
    monkeypatch.setattr(
        "train.finetune.__main__.linear_schedule", lambda *_: lambda step: jnp.where(step < 8, 3e-3, 9.0)
    )
    arguments = command(tmp_path, tmp_path / "out", "pos", "--seeds", "12", "--epochs", "2")
    arguments.insert(arguments.index("--test") + 1, arguments[arguments.index("--dev") + 1])
    assert main(arguments) == 0
    one = json.loads((tmp_path / "out" / "transfer.json").read_text())["seeds"]["12"]
    lines = log_of(tmp_path / "out" / "seed-12")
    errors = [line["loss"][0] for line in lines if line["event"] == "validation"]
    assert errors[-1] > min(errors)
    assert one["best_validation"] == np.argmin(errors) + 1
    assert one["scores"]["dev-en"]["accuracy"] == pytest.approx(100 - min(errors)) == one["development"]


@pytest.mark.slow
@pytest.mark.usefixtures("one_block")
def test_features_with_maps(tmp_path, capsys, refused):
    spec = lj.load_encoder(str(TINY)).spec
    rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((32, 32)))
    for layer in range(2):
        maps = linear_maps({"de": rotation.astype(np.float32)}, "en", {"de": 9}, source=replace(spec, layer=layer))
        maps.save(tmp_path / f"layer-{layer}.safetensors")
    scores = {}
    english, french = (write_labelled(tmp_path, "pos", f"test-{code}", 12, 3) for code in ("en", "fr"))
    train = ["--seeds", "1", "--features", "--learning-rate", "3e-3", "--epochs", "2"]
    for name, more in (("plain", []), ("mapped", ["--maps", str(tmp_path)])):
        arguments = command(tmp_path, tmp_path / name, "pos", *train, *more)
        arguments[arguments.index("--test") + 1 : arguments.index("--test") + 1] = [english, french]
        assert main(arguments) == 0
        scores[name] = json.loads((tmp_path / name / "transfer.json").read_text())["seeds"]["1"]["scores"]
    mapped = {name: one["mapped"] for name, one in scores["mapped"].items()}
    assert mapped == {"test-en": False, "test-fr": False, "test-de": True}
    assert "has no matrices for test-fr; tested without" in " ".join(capsys.readouterr().out.split())
    assert scores["plain"]["test-en"] == scores["mapped"]["test-en"]
    assert scores["plain"]["test-de"]["accuracy"] != scores["mapped"]["test-de"]["accuracy"]
    arguments = command(tmp_path, tmp_path / "other", "xnli", "--maps", str(tmp_path))
    assert "it must be given with --features, or left out" in refused(main, arguments)
    assert "layer-2.safetensors" in refused(main, [*arguments, "--features", "--layer", "2"])
    maps.save(tmp_path / "layer-0.safetensors")
    assert "has maps of EncoderSpec(id='bert'" in refused(main, [*arguments, "--features"])


@pytest.mark.parametrize("trained", [0, 1, 3])
def test_the_last_blocks_are_those_next_to_the_output(trained):
    _, values, _ = take_apart(EncoderParts(lj.load_encoder(str(TINY)).model, None), False)
    own, others = split_blocks(values, 3, trained)
    assert own | others == values
    assert len(own) == trained * sum("blocks.0." in name for name in values)
    assert {name.split(".")[2] for name in own} == {str(block) for block in range(3 - trained, 3)}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--epochs", "0"], "--epochs is 0; it must be at least 1"),
        (["--seeds", "1", "1"], "--seeds is (1, 1); it must be one or more, each once"),
        (["--seeds", "1", "4294967296"], "--seeds is 4294967296; it must be from 0 to 4294967295"),
        (["--batch", "65"], "--batch is 65; it must be at most 64, all sentences"),
        (["--max-length", "400"], "--max-length is 400; it must be at most 38, which bert takes"),
        (["--train", "nowhere"], "there is no nowhere in"),
        (["--trained-blocks", "4", "--layer", "3"], "--trained-blocks is 4; it must be from 0 to 3, its blocks"),
        (["--most-dev", "0"], "--most-dev is 0; it must be at least 1"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, refused, more, message):
    assert message in refused(main, command(tmp_path, tmp_path / "out", "pos", *more))


def test_datasets_with_configurations_of_one_name_are_two_tests(monkeypatch):
    tests = ("hub:a/b#de", "hub:c/d#de")
    monkeypatch.setattr(TransferTask, "read", lambda *_: {"de": []})
    assert list(labelled_tests(TASKS["pos"], tests)) == list(tests)
    assert list(labelled_tests(TASKS["pos"], tests[:1])) == ["de"]


WORD = "1\tx\t_\t{}\t_\t_\t0\troot\t_\t_\n\n"
FEW = "the labels to train on are {}; there must be at least two"


@pytest.mark.parametrize(
    ("task", "option", "name", "content", "message"),
    [
        ("pos", "--train", "train-de.txt", WORD.format("X") * 64, "train-de.txt has no text in en; it has de"),
        ("pos", "--train", "part-en.txt", WORD.format("X") + WORD.format("_"), "'x' in sentence 2 has the UPOS _"),
        ("pos", "--test", "part-en.txt", WORD.format("X") + WORD.format("_"), "'x' in sentence 2 has the UPOS _"),
        ("pos", "--test", "german.txt", WORD.format("X"), "german.txt is not named after its language, as in"),
        ("pos", "--train", "one-en.txt", WORD.format("NOUN") * 64, f"one-en.txt: {FEW.format('NOUN')}"),
        ("ner", "--train", "one-en.txt", "Jo\tO\n\n" * 64 + "Jo\tB-PER\n\n", f"one-en.txt: {FEW.format('O')}"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit(tmp_path, refused, task, option, name, content, message):
    arguments = command(tmp_path, tmp_path / "out", task, "--most", "64", "--seeds", "1")
    (tmp_path / name).write_text(content)
    assert message in refused(main, [*arguments, option, str(tmp_path / name)])
    assert not (tmp_path / "out" / "transfer.json").exists()


def test_labels_that_training_lacks_are_told(tiny, capsys):
    sentences, test = labelled("ner", 64), [TaggedSentence(("a", "b", "c"), ("B-PER", "B-DATE", "O"))]
    read = sentences, sentences[:9], {"test-de": ("de", test)}
    tokenized(TextChoice("train", ("test",)), TASKS["ner"], tiny, 20, read)
    assert "test-de: 33.3% of the labels are not in the training text" in capsys.readouterr().out
