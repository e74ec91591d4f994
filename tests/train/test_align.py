"""Alignment end to end: files, a run that is killed, and the encoder and the maps that are written."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import Transform
from lsar_jax.objectives.align import l2_loss
from tests.conftest import TINY
from tests.optional import need
from tests.parity import GOLDEN
from tests.train.runs import log_of, write_words
from train.align.__main__ import main
from train.align.batches import ChunkSizes
from train.align.examples import sentence_examples, word_examples
from train.align.linear import LinearTraining, LinkMoments, link_moments, moments_loss
from train.align.options import AlignOptions
from train.align.training import BatchPlan
from train.training_task import Steps
from train.word_pairs.aligned_files import AlignedPair, read_aligned

SHORT = ["--batch", "8", "--steps", "6", "--validate-every", "2", "--max-length", "24"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Word-aligned text and plain text of two languages whose words are those of English, written otherwise."""
    folder = tmp_path_factory.mktemp("align")
    write_words(folder)
    return folder


def command(folder, out, objective, *more, encoder=TINY):
    text = ["--data", str(folder / "text"), "--held-out", "10", "--validation", "0.2"]
    source = text if objective == "sentence" else ["--words", str(folder / "words")]
    return ["--objective", objective, "--encoder", str(encoder), *source, *SHORT, "--out", str(out), *more]


STRONG = ["--layer", "1", "--learning-rate", "1e-3"]


@pytest.fixture(scope="module")
def strong(folder):
    out = folder / "strong"
    assert main(command(folder, out, "strong", *STRONG)) == 0
    return out


LINEAR = ["--layer", "1", "--learning-rate", "1e-2", "--steps", "300", "--validate-every", "50"]


@pytest.fixture(scope="module")
def linear(folder):
    out = folder / "linear"
    assert main(command(folder, out, "linear", *LINEAR)) == 0
    return out


def test_what_is_written(folder, strong, capsys):
    config = json.loads((strong / "config.json").read_text())
    assert config["pairs"] == {"de": [90, 20], "fr": [90, 20]}
    assert (config["stay_close"], config["warmup"]) == (1.0, 0)
    trained = json.loads((strong / "trained.json").read_text())
    assert (trained["objective"], trained["steps"], trained["stopped_by"]) == ("strong", 6, "steps")
    alignment = json.loads((strong / "bert-strong" / "alignment.json").read_text())
    assert (alignment["steps"], alignment["batch"], alignment["learning_rate"]) == (6, 8, 1e-3)
    assert (strong / "curves.png").read_bytes()[:4] == b"\x89PNG"
    lines = log_of(strong)
    assert [line["event"] for line in lines] == ["train", "validation"] * 3
    assert set(lines[0]["terms"]) == {"strong", "parameter_drift"}
    assert set(lines[1]["terms"]) == {"strong"}
    # Again it finds that there is nothing left to do.
    before = (strong / "bert-strong" / "model.safetensors").read_bytes()
    (strong / "bert-strong" / "README.md").write_text("theirs")
    assert main(command(folder, strong, "strong", *STRONG)) == 0
    assert "6 steps; best validation" in capsys.readouterr().out
    assert (strong / "bert-strong" / "model.safetensors").read_bytes() == before
    assert (strong / "bert-strong" / "README.md").read_text() == "theirs"
    assert not list(strong.glob(".*"))


def test_a_folder_that_the_run_has_not_written_is_kept(folder, tmp_path, refused):
    theirs = tmp_path / "bert-strong"
    theirs.mkdir()
    error = refused(main, command(folder, tmp_path, "strong", *STRONG))
    assert f"{theirs} would be replaced, but no run has written it" in error
    assert not (tmp_path / "config.json").exists()


def test_the_aligned_encoder_is_an_encoder(strong):
    """It differs from the one it was, by as much as the last line of the log says."""
    start, aligned = lj.load_encoder(str(TINY), layer=1), lj.load_encoder(str(strong / "bert-strong"))
    assert aligned.spec.layer == start.spec.layer == 1
    assert aligned.spec.revision != start.spec.revision
    changes = jax.tree.map(lambda one, other: np.square(one - other).sum(), aligned.model, start.model)
    drift = np.sqrt(sum(jax.tree.leaves(changes)))
    assert 0.5 < drift / log_of(strong)[-2]["terms"]["parameter_drift"][0] < 3
    x, y = (encoder.encode(["a b c", "xx y c"]) for encoder in (start, aligned))
    assert np.abs(x - y).max() > 1e-3


def moments_of(folder, out, part="train"):
    encoder = lj.load_encoder(str(TINY), layer=1)
    examples = word_examples(encoder.tokenizer, read_aligned(folder / "words", part), 24)
    plan = BatchPlan(AlignOptions(batch=16), ChunkSizes(96, 48, encoder.mesh.size), 0)
    return encoder, examples, link_moments(encoder, examples, plan, out / "moments")


def test_moments_are_those_of_the_links(folder, rng, tmp_path):
    """Against the states of each sentence alone: the loss of moments is the loss of the links."""
    encoder, examples, moments = moments_of(folder, tmp_path)
    code = "fr"
    own = examples.of(code)
    every = jax.jit(lambda ids, lengths: jnp.stack(tuple(encoder.model.hidden_states(ids, lengths))))
    sides = []
    for ids, side in ((own.source, 0), (own.target, 1)):
        states = []
        for row, links in zip(ids, own.links, strict=True):
            padded = np.zeros((1, 24), np.int32)
            padded[0, : len(row)] = row
            found = every(padded, np.array([[len(row)]], np.int32))
            states.append(np.asarray(found)[:, 0, links[:, side]])
        sides.append(jnp.asarray(np.concatenate(states, axis=1)))
    maps = jnp.asarray(np.eye(32) + 0.1 * rng.standard_normal((2, 32, 32)), jnp.float32)

    @jax.vmap
    def mapped_loss(w, s, t):
        return l2_loss(s, jnp.matmul(t, w.T, precision="highest"))

    expected = mapped_loss(maps, *sides)
    row = moments.codes.index(code)
    assert moments.counts[row] == sides[0].shape[1]
    np.testing.assert_allclose(moments_loss(maps, *(part[row] for part in moments[2:])), expected, rtol=2e-5)


def test_a_language_is_encoded_once(folder, tmp_path, capsys):
    """Moments that were written before a run was killed are read, and are the same."""
    _, _, first = moments_of(folder, tmp_path)
    assert "pairs of de" in capsys.readouterr().out
    (tmp_path / "moments" / "fr.safetensors").unlink()
    _, _, again = moments_of(folder, tmp_path)
    printed = capsys.readouterr().out
    assert "pairs of fr" in printed
    assert "pairs of de" not in printed
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_decoder_is_aligned(folder, tmp_path):
    """Validation losses fall, and others read what is written."""
    need("torch")
    from sentence_transformers import SentenceTransformer

    encoder = GOLDEN / "gemma3-causal"
    more = ["--learning-rate", "1e-3", "--dropout", "0.01", "--stay-close", "0", "--layer", "1", "--final-norm"]
    assert main(command(folder, tmp_path / "whole", "sentence", *more, encoder=encoder)) == 0
    lines = log_of(tmp_path / "whole")
    losses = [line["terms"]["sentence"][0] for line in lines if line["event"] == "validation"]
    assert losses[-1] < losses[0]
    written = tmp_path / "whole" / "gemma3-causal-sentence"
    ours, theirs = lj.load_encoder(str(written)), SentenceTransformer(str(written), device="cpu")
    assert ours.spec.layer == 1
    x = ours.encode(texts := ["a b c", "xx y c", "d"])
    np.testing.assert_allclose(theirs.encode(texts), x, atol=1e-5 * np.abs(x).max())
    assert np.abs(x - lj.load_encoder(str(encoder)).encode(texts)).max() > 1e-3


def test_maps_are_transforms(folder, linear, tmp_path):
    """Each lowers the validation loss of its layer and language, whose mean is recorded; English stays as it is."""
    encoder, _, moments = moments_of(folder, tmp_path, "validation")
    losses = []
    for layer in range(2):
        for name in ("layer", "procrustes"):
            transform = Transform.load(linear / f"{name}-{layer}.safetensors")
            assert transform.languages == ("de", "en", "fr")
            assert (transform.source.layer, transform.source.id) == (layer, encoder.spec.id)
            matrices = np.asarray(transform.steps[0].matrix)
            if name == "procrustes":
                squares = matrices @ matrices.swapaxes(1, 2)
                np.testing.assert_allclose(squares, np.broadcast_to(np.eye(32), (3, 32, 32)), atol=1e-5)
            np.testing.assert_array_equal(matrices[1], np.eye(32))
            for row, code in ((0, "de"), (2, "fr")):
                at = moments.codes.index(code)
                before, after = (
                    moments_loss(matrix, *(part[at, layer] for part in moments[2:]))
                    for matrix in (np.eye(32, dtype=np.float32), matrices[row])
                )
                assert after < before
                losses += [float(after)] if name == "layer" else []
            assert dict(transform.fits[0].parameters)["fit"] == ("trained" if name == "layer" else "closed")
    trained = json.loads((linear / "trained.json").read_text())
    assert trained["written"] == "best of each layer and language"
    assert trained["validation"] == pytest.approx(np.mean(losses), rel=1e-5)
    x = encoder.encode(["a b"])
    encoder.with_transform(Transform.load(linear / "layer-1.safetensors")).encode(["a b"], language="fr")
    np.testing.assert_array_equal(Transform.load(linear / "layer-1.safetensors")(x, "en"), x)


def test_steps_are_those_of_a_torch_loop(rng, monkeypatch):
    """Adam on the links themselves, a step towards the orthogonal matrices before each, and the best matrix kept."""
    torch = need("torch")
    s, t = (rng.standard_normal((2, 2, 2, 12, 4)) for _ in range(2))  # [part, language, layer, link, dim]
    # Few links are overfitted, so that the lowest validation losses are at different steps.
    parts = [
        LinkMoments(
            ("de", "fr"), np.full(2, 12), (s**2).sum(-1).mean(-1).astype(np.float32),
            *((np.swapaxes(x, -1, -2) @ t / 12).astype(np.float32) for x in (s, t)),
        )
        for s, t in zip(s, t, strict=True)
    ]  # fmt: skip
    options = AlignOptions(0.03, batch=1, steps=60, validate_every=6, beta=0.02, warmup=0)
    plan = BatchPlan(options, ChunkSizes(0, 0), 0)
    monkeypatch.setattr(BatchPlan, "schedule", lambda plan: 0.03)
    task = LinearTraining(*parts, plan)
    state = task.start()
    maps = torch.eye(4, dtype=torch.float64).repeat(2, 2, 1, 1).requires_grad_()
    adam, s, t = torch.optim.Adam([maps], lr=0.03), torch.tensor(s), torch.tensor(t)

    def loss(w, part):
        return (s[part] - t[part] @ w.mT).square().sum(-1).mean(-1)

    def towards_orthogonal(w):
        return 1.02 * w - 0.02 * w @ w.mT @ w

    lowest, best = loss(maps.detach(), 1), maps.detach().clone()
    kept_at = torch.zeros(2, 2)
    for epoch in range(10):
        state, terms = task.steps(state, Steps(task.order(state, epoch), epoch, 0, np.ones(1, bool)))
        for number in range(6):
            with torch.no_grad():
                maps.copy_(towards_orthogonal(maps))
            adam.zero_grad()
            value = loss(maps, 0)
            np.testing.assert_allclose(terms["linear"][0, number], value.mean().item(), rtol=1e-4)
            value.sum().backward()
            adam.step()
        tried = towards_orthogonal(maps.detach())
        better = loss(tried, 1) < lowest
        best = torch.where(better[..., None, None], tried, best)
        lowest = torch.minimum(lowest, loss(tried, 1))
        kept_at[better] = epoch
        np.testing.assert_allclose(task.validate(state)["linear"][0], loss(tried, 1).mean().item(), rtol=1e-4)
    assert 0 < kept_at.min() < kept_at.max()
    np.testing.assert_allclose(task.kept(state)["maps"][0], best, atol=1e-4)
    np.testing.assert_allclose(task.kept(state)["lowest"][0], lowest, rtol=1e-4)


def test_links_beyond_the_length_are_dropped(folder):
    tokenizer = lj.load_encoder(str(TINY), layer=0).tokenizer
    pair = AlignedPair(("a", "b", "c"), ("c", "a", "b"), frozenset({(0, 1), (1, 2), (2, 0)}))
    [links] = word_examples(tokenizer, {"de": [pair]}, 5).links
    np.testing.assert_array_equal(links, [[1, 2], [2, 3], [3, 1]])
    [links] = word_examples(tokenizer, {"de": [pair]}, 4).links
    np.testing.assert_array_equal(links, [[1, 2]])
    with pytest.raises(ValueError, match="no link of de is within --max-length 3; raise it, or omit de"):
        word_examples(tokenizer, {"de": [pair]}, 3)
    examples = sentence_examples(tokenizer, {"de": [("a b c", "c a b")]}, 4, "d ")
    assert (len(examples.source[0]), examples.links, examples.counts) == (4, None, {"de": 1})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch", "7"], "--batch is 7; it must be at least 2 and a multiple of the number of devices, 4"),
        (["--batch", "44"], "--batch is 44; it must be at most the number of validation pairs, 40"),
        (["--warmup", "6"], "--warmup is 6; it must be from 0 to below --steps, 6"),
        (["--objective", "linear", "--beta", "0.6"], "--beta is 0.6; it must be from 0 to below 0.5"),
        (["--max-length", "400"], "--max-length is 400; it must be at most 40, which bert takes"),
        (["--layer", "4"], "layer is 4"),
        (["--words", "nowhere"], "it has none; make it with python -m train.word_pairs --out nowhere"),
        (["--languages", "sw"], "has no en-sw.train.words; it has"),
        (["--more", "x"], "left out: --objective strong does not read it; its text is word pairs (--words)"),
        (["--beta", "0.1"], "--beta is 0.1; it must be left out: --objective strong does not read it"),
        (["--objective", "sentence"], "its text is sentences (--data, --more)"),
        (["--encoder", str(TINY.parent / "laser2")], "only transformers can be aligned"),
        (["--encoder", str(TINY.parent / "xlm")], "embeds the language, which sentence-transformers does"),
    ],
)  # fmt: skip
def test_what_is_refused(folder, tmp_path, refused, more, message):
    assert message in refused(main, command(folder, tmp_path / "out", "strong", *more))
    assert not (tmp_path / "out").exists()
