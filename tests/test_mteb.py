"""An encoder under mteb's protocol: scores are those of lsar_jax itself, and what mteb cannot say is refused."""

import json
import sys

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.mteb import MtebEncoder
from lsar_jax.transforms import fit_center, fit_lsar
from lsar_jax.transforms.identifier import fit_identifier
from tests.optional import need
from tests.parity import GOLDEN
from tests.reference import unit

mteb = need("mteb")
need("torch")
from datasets import Dataset, DatasetDict  # noqa: E402  (comes with mteb)
from mteb.abstasks import AbsTaskBitextMining, AbsTaskSTS  # noqa: E402
from mteb.mocks.mock_tasks import MockRetrievalTask  # noqa: E402
from mteb.types import PromptType  # noqa: E402

# mteb copies a tensor, which its protocol asks for, in a way that torch advises against.
pytestmark = pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning:mteb")

ISO = {"de": "deu-Latn", "en": "eng-Latn", "sw": "swa-Latn"}
PAIRED = {f"{code}-en": [ISO[code], ISO["en"]] for code in ("de", "sw")}
TEXT = lj.corpora.udhr("test", ISO)
GOLD = np.random.default_rng(0).uniform(0, 5, 25)


def described(name, kind, subsets, score):
    return mteb.TaskMetadata(
        name=name,
        description="made in memory",
        # There is no such data set: load_data below makes it.
        dataset={"path": "lsar_jax/none", "revision": "none"},
        type=kind,
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=subsets,
        main_score=score,
    )


def rows(**columns):
    return DatasetDict(test=Dataset.from_dict(columns))


class Pairs(AbsTaskBitextMining):
    metadata = described("UdhrPairs", "BitextMining", PAIRED, "accuracy")

    def load_data(self, *args, **kwargs):
        self.dataset = {f"{x}-en": rows(sentence1=TEXT[x], sentence2=TEXT["en"]) for x in ("de", "sw")}
        self.data_loaded = True


class Columns(AbsTaskBitextMining):
    """As Flores: a column a language, and a subset for each two."""

    parallel_subsets = True
    metadata = described("UdhrColumns", "BitextMining", {"deu_Latn-swa_Latn": [ISO["de"], ISO["sw"]]}, "accuracy")

    def load_data(self, *args, **kwargs):
        self.dataset = rows(deu_Latn=TEXT["de"], swa_Latn=TEXT["sw"])
        self.data_loaded = True


class Similar(AbsTaskSTS):
    metadata = described("UdhrSimilar", "STS", {"sw": [ISO["sw"]]}, "cosine_spearman")

    def load_data(self, *args, **kwargs):
        text = TEXT["sw"]
        self.dataset = {"sw": rows(sentence1=text, sentence2=text[1:] + text[:1], score=GOLD)}
        self.data_loaded = True


# Subsets of one language and of two, as of STS17.
LANGUAGES = described("Udhr", "STS", {"de": [ISO["de"]], "de-en": [ISO["de"], ISO["en"]]}, "cosine_spearman")


def scores(model, task, **more):
    options = {"cache": None, "co2_tracker": False, "show_progress_bar": False, **more}
    result = mteb.evaluate(model, task, **options).task_results[0]
    return {one["hf_subset"]: one for one in result.scores["test"]}


def nearest(x, y):
    """The candidate of each query and its score, and the share that is right."""
    score, index = (np.asarray(part)[:, 0] for part in lj.retrieval.nearest(x, y, 1))
    return index, score, np.mean(index == np.arange(len(index)))


def mined(model, task, folder):
    """What mteb finds for each subset, as ``nearest`` says it."""
    result = scores(model, task, prediction_folder=folder)
    said = json.loads((folder / f"{task.metadata.name}_predictions.json").read_text())
    found = {}
    for subset in said.keys() - {"mteb_model_meta"}:
        for pair, rows in said[subset]["test"].items():
            own = pair if subset == "parallel" else subset
            index, score = ([row[part] for row in rows] for part in ("corpus_id", "score"))
            found[own] = index, score, result[own]["accuracy"]
    return found


def assert_same(got, expected):
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    assert got[2] == pytest.approx(expected[2])


def spearman(x):
    from scipy.stats import spearmanr

    return spearmanr((unit(x) * np.roll(unit(x), -1, axis=0)).sum(1), GOLD).statistic


@pytest.fixture(scope="module")
def x(tiny):
    return {code: tiny.encode(text) for code, text in TEXT.items()}


@pytest.fixture(scope="module")
def moments(tiny):
    return {code: tiny.moments(text, second_moment=True) for code, text in lj.corpora.udhr("fit", ISO).items()}


@pytest.fixture(scope="module")
def agnostic(tiny, moments):
    return tiny.with_transform(fit_lsar(moments, source=tiny.spec))


@pytest.fixture(scope="module")
def centered(tiny, moments):
    return tiny.with_transform(fit_center(moments, source=tiny.spec))


def test_bitext_mining_is_ours(agnostic, x, tmp_path):
    lsar, found = agnostic.transform, mined(MtebEncoder(agnostic), Pairs(), tmp_path)
    for code in ("de", "sw"):
        assert_same(found[f"{code}-en"], nearest(lsar(x[code]), lsar(x["en"])))


def test_similarity_scores_are_ours(tiny, agnostic, x):
    for encoder, y in ((tiny, x["sw"]), (agnostic, agnostic.transform(x["sw"]))):
        model = MtebEncoder(encoder)
        assert isinstance(model, mteb.EncoderProtocol)
        assert not isinstance(model, mteb.SearchProtocol | mteb.CrossEncoderProtocol)
        got = scores(model, Similar(), encode_kwargs={"batch_size": 3})["sw"]
        assert got["cosine_spearman"] == pytest.approx(spearman(y), abs=1e-5)
        # What similarity_pairwise gave.
        assert got["spearman"] == pytest.approx(got["cosine_spearman"], abs=1e-5)


def test_a_task_of_one_language_names_it(centered, x):
    got = scores(MtebEncoder(centered), Similar())["sw"]["cosine_spearman"]
    assert got == pytest.approx(spearman(centered.transform(x["sw"], "sw")), abs=1e-5)


def test_a_column_of_parallel_text_names_its_language(centered, x, tmp_path):
    expected = nearest(*(centered.transform(x[code], code) for code in ("de", "sw")))
    got = mined(MtebEncoder(centered), Columns(), tmp_path)
    assert_same(got["deu_Latn-swa_Latn"], expected)


def test_an_identifier_finds_the_language(tiny, centered, moments, x, tmp_path):
    found = centered.transform.with_identifier(fit_identifier(moments))
    got = mined(MtebEncoder(tiny.with_transform(found)), Pairs(), tmp_path)
    for code in ("de", "sw"):
        assert_same(got[f"{code}-en"], nearest(found(x[code], "auto"), found(x["en"], "auto")))


def test_a_given_language_is_for_all_text(centered, x, tmp_path):
    got = mined(MtebEncoder(centered, language="deu"), Pairs(), tmp_path)
    assert_same(got["sw-en"], nearest(*(centered.transform(x[code], "de") for code in ("sw", "en"))))


WHERE = {"task_metadata": Similar.metadata, "hf_split": "test", "hf_subset": "sw"}
REFUSALS = {
    r"center.*'de-en' of UdhrPairs .*\(deu-Latn, eng-Latn\); use a shared": lambda _, x: scores(
        MtebEncoder(x), Pairs()
    ),
    "'fr' is not in center": lambda _, centered: MtebEncoder(centered, language="fr"),
    "has no identifier": lambda _, centered: MtebEncoder(centered, language="auto"),
    "no transform, tokenizer or embedding": lambda raw, _: MtebEncoder(raw, language="de"),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(tiny, centered, message):
    with pytest.raises(ValueError, match=message):
        REFUSALS[message](tiny, centered)


def test_language_embeddings_need_the_language_too():
    encoder = lj.load_encoder(GOLDEN / "xlm")
    got = MtebEncoder(encoder).encode([{"text": ["abc"]}], task_metadata=LANGUAGES, hf_split="test", hf_subset="de")
    np.testing.assert_allclose(got, encoder.encode(["abc"], language="de"), rtol=1e-5, atol=1e-6)
    assert np.abs(got - encoder.encode(["abc"], language="en")).max() > 0.1
    with pytest.raises(ValueError, match="xlm depends on the language"):
        MtebEncoder(encoder).encode([], task_metadata=LANGUAGES, hf_split="test", hf_subset="de-en")


def test_a_tokenizer_takes_the_language_where_it_is_known(monkeypatch):
    encoder, taken = lj.load_encoder(GOLDEN / "xlm-sinusoidal"), []
    encode = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda *a, **k: taken.append(k["language"]) or encode(*a, **k))
    for subset in ("de", "de-en"):
        MtebEncoder(encoder).encode([], task_metadata=LANGUAGES, hf_split="test", hf_subset=subset)
    assert taken == ["deu-Latn", None]


SIDES = {"query": "q: ", "passage": "p: "}


# Letters, because the tiny encoder's pieces are letters: other prompts give other vectors.
@pytest.mark.parametrize(
    ("prompts", "side", "expected"),
    [
        ({}, PromptType.query, ""),
        (SIDES, PromptType.document, "p: "),
        (SIDES | {"document": "d: "}, PromptType.document, "d: "),
        (SIDES | {"STS": "s: "}, PromptType.query, "s: "),
        ({"STS-query": "t: ", "UdhrSimilar": "u: "}, PromptType.query, "u: "),
        ({"UdhrSimilar-query": "Instruct: ab\nQuery:", "document": ""}, PromptType.query, "Instruct: ab\nQuery:"),
    ],
)
def test_prompts_go_from_the_particular_to_the_general(tiny, prompts, side, expected):
    batches = [{"text": TEXT["de"][:2]}, {"text": TEXT["de"][2:3]}]
    got = MtebEncoder(tiny, prompts=prompts).encode(batches, **WHERE, prompt_type=side)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, tiny.encode(TEXT["de"][:3], prompt=expected), rtol=1e-5, atol=1e-6)


def test_metadata_says_what_is_known(tiny, agnostic):
    meta = MtebEncoder(tiny).mteb_model_meta
    assert (meta.name, meta.revision) == ("lsar_jax/bert_layer3_mean", tiny.spec.revision)
    assert (meta.embed_dim, meta.max_tokens, meta.similarity_fn_name) == (32, 40, "cosine")
    assert meta.memory_usage_mb == pytest.approx(meta.n_parameters * 4 / 2**20)
    assert MtebEncoder(tiny.with_prompt("query: ")).mteb_model_meta.experiment_kwargs == {"prompt": "query: "}
    agnostic = MtebEncoder(agnostic, prompts={"query": "q: "}).mteb_model_meta
    assert agnostic.name == "lsar_jax/bert_layer3_mean_lsar(rank=2)"
    assert agnostic.experiment_kwargs["prompts"] == {"query": "q: "}


def test_cached_results_are_of_one_transform(tiny, agnostic, moments, tmp_path):
    other = fit_lsar({"de": moments["sw"], "en": moments["en"], "fr": moments["de"].update(np.eye(32))})
    assert other.name == agnostic.transform.name
    cache = mteb.ResultCache(tmp_path)
    first, second = MtebEncoder(agnostic), MtebEncoder(tiny.with_transform(other))
    for model in (first, second, first):
        cached = scores(model, Similar(), cache=cache)["sw"]["main_score"]
        # mteb writes six digits.
        assert cached == pytest.approx(scores(model, Similar())["sw"]["main_score"], abs=1e-6)
    assert len(list(tmp_path.rglob("UdhrSimilar.json"))) == 2


def test_retrieval_runs(agnostic):
    model = MtebEncoder(agnostic, prompts={"query": "query: "})
    assert 0 <= scores(model, MockRetrievalTask())["default"]["main_score"] <= 1


def test_without_mteb_the_extra_is_named(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb.models", None)
    with pytest.raises(ImportError, match=r"lsar_jax\[mteb\]"):
        MtebEncoder(tiny)
