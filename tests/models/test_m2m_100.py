"""M2M-100's encoder: its positions, its prefixes, and the language before a sentence.

Parity with transformers is in ``test_transformer.py``.
"""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.pickles import convert
from lsar_jax.tokens.nllb import flores_name
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json

NAME, WEIGHTS = "m2m-100", "model.safetensors"


@pytest.fixture(scope="module")
def encoder():
    return lj.load_encoder(GOLDEN / NAME)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / NAME, tmp_path / NAME)


def test_token_ids_are_those_of_transformers(encoder):
    reference = json.loads((GOLDEN / NAME / "golden_ids.json").read_text())
    texts, languages, expected = zip(*reference, strict=True)
    ids, truncated = encoder.tokenizer(texts, 40, languages)
    assert [row.tolist() for row in ids] == list(expected)
    assert (truncated, encoder.tokenizer.specials) == (sum(len(row) == 40 for row in expected), (1, 1))
    # Cut ones keep both special tokens.
    [cut], _ = encoder.tokenizer(["a b c d e"], 4, ["de"])
    assert encoder.tokenizer.backend.id_to_token(int(cut[0])) == "deu_Latn"
    assert (len(cut), cut[-1]) == (4, 2)


@pytest.mark.parametrize("post", [False, True])
def test_the_language_is_first_whatever_the_file_says(folder, encoder, post):
    """Files on the Hub have the order of the first versions, which transformers replaces as well."""
    ends = {"</s>": 2, "deu_Latn": 59}
    single = [{"Sequence": {"id": "A", "type_id": 0}}, *({"SpecialToken": {"id": end, "type_id": 0}} for end in ends)]
    tokens = {end: {"id": end, "ids": [row], "tokens": [end]} for end, row in ends.items()}
    template = {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": tokens}
    edit_json(folder / "tokenizer.json", post_processor=template if post else None)
    found = lj.load_encoder(folder).encode(TEXTS, language="fa")
    np.testing.assert_array_equal(found, encoder.encode(TEXTS, language="pes_Arab"))


@pytest.mark.parametrize(
    ("language", "message"),
    [
        (None, "m2m-100 embeds the language, or puts it before a sentence; give language=, such as 'en'"),
        ("fr", "language 'fr' is not in m2m-100; known languages are eng_Latn, deu_Latn, kor_Hang, pes_Arab, prs_Ar"),
        (["en", "fr"], "language 'fr' is not in m2m-100; known"),
        ("auto", "language is 'auto', which only transforms support; give the languages for m2m-100"),
        ("zh-Hant", "language 'zh-Hant' is not in m2m-100; known languages are"),
        ("x-law", "language 'x-law' is not in m2m-100"),
        ("nonsense", "'nonsense' is not a language code"),
    ],
)
def test_languages_that_are_refused(encoder, language, message):
    with pytest.raises(ValueError, match=message):
        encoder.encode(["a", "b"], language=language)


def test_every_code_of_nllb_is_found():
    need("transformers")
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NAMES

    assert [flores_name(name, NAMES, "NLLB") for name in NAMES] == NAMES
    pairs = {
        "en": "eng_Latn", "zh": "zho_Hans", "cmn": "zho_Hans", "zh-TW": "zho_Hant", "yue": "yue_Hant", "ko": "kor_Hang",
        "ar": "arb_Arab", "arz": "arz_Arab", "fa": "pes_Arab", "prs": "prs_Arab", "no": "nob_Latn", "nn": "nno_Latn",
        "ps": "pbt_Arab", "qu": "quy_Latn", "ff": "fuv_Latn", "ak": "aka_Latn", "twi": "twi_Latn", "iw": "heb_Hebr",
        "sr": "srp_Cyrl", "ks": "kas_Arab", "ks-Deva": "kas_Deva", "sat": "sat_Beng", "az": "azj_Latn",
        "azb": "azb_Arab", "ku": "kmr_Latn", "lv": "lvs_Latn", "et": "est_Latn", "sw": "swh_Latn", "tl": "tgl_Latn",
        "fil": "tgl_Latn", "ace": "ace_Latn", "tzm": "tzm_Tfng", "sq": "als_Latn", "ms": "zsm_Latn",
    }  # fmt: skip
    assert {code: flores_name(code, NAMES, "NLLB") for code in pairs} == pairs
    for code in lj.corpora.udhr():
        flores_name(code, NAMES, "NLLB")
    for code in ("sr-Latn", "wuu"):
        with pytest.raises(ValueError, match=f"language {code!r} is not in NLLB; known languages are ace_Arab"):
            flores_name(code, NAMES, "NLLB")


@pytest.mark.parametrize("prefix", ["encoder.", "model.encoder."])
@pytest.mark.parametrize("shared", [False, True])
def test_a_whole_translation_model(folder, encoder, prefix, shared):
    tensors = {prefix + name: value for name, value in load_file(folder / WEIGHTS).items()}
    model = prefix.removesuffix("encoder.")
    if shared:
        tensors[f"{model}shared.weight"] = tensors.pop(f"{prefix}embed_tokens.weight")
    more = {f"{model}decoder.layers.0.fc1.weight": (8, 8), f"{model}decoder.embed_tokens.weight": (64, 32)}
    more |= {"lm_head.weight": (64, 32), f"{prefix}embed_positions.weights": (9, 32)}
    save_file(tensors | {name: np.ones(shape, np.float32) for name, shape in more.items()}, folder / WEIGHTS)
    found = lj.load_encoder(folder).encode(TEXTS, language="en")
    np.testing.assert_array_equal(found, encoder.encode(TEXTS, language="en"))


@pytest.mark.slow
def test_models_that_transformers_writes(folder, tmp_path):
    torch = need("torch")
    from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Model

    torch.manual_seed(0)
    config = M2M100Config.from_pretrained(folder)
    for number, kind in enumerate((M2M100Model, M2M100ForConditionalGeneration)):
        model = kind(config).eval()
        model.save_pretrained(folder)
        encoder = lj.load_encoder(folder, pooling="mean")
        ids = encoder.tokenizer(["a b c"], 40, ["de"])[0][0]
        with torch.no_grad():
            state = model.get_encoder()(torch.tensor(ids[None].astype(np.int64))).last_hidden_state[0].numpy()
        np.testing.assert_allclose(encoder.encode("a b c", language="de"), state.mean(axis=0), rtol=0, atol=1e-5)
        pickled = shutil.copytree(folder, tmp_path / f"pickled{number}")
        (pickled / WEIGHTS).unlink()
        torch.save(model.state_dict(), pickled / "pytorch_model.bin")
        convert(str(pickled), tmp_path / f"converted{number}")
        again = lj.load_encoder(tmp_path / f"converted{number}", pooling="mean")
        np.testing.assert_array_equal(again.encode(TEXTS, language="de"), encoder.encode(TEXTS, language="de"))


def test_tokenizers_that_are_refused(folder):
    edit_json(folder / "tokenizer_config.json", legacy_behaviour=True)
    with pytest.raises(ValueError, match="legacy_behaviour is True, .* only False is supported"):
        lj.load_encoder(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(GOLDEN / "bert" / name, folder / name)
    with pytest.raises(ValueError, match="lacks </s> or tokens for languages, such as eng_Latn"):
        lj.load_encoder(folder)
