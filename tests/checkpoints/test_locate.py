"""The Hub: what is kept is used, and one that does not answer is given up soon."""

import logging
import shutil

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import hub as lsar_hub
from lsar_jax.encoders import PRESETS, Preset
from tests.dataset_hub import COMMIT, Server, point, serve
from tests.parity import GOLDEN


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with point(monkeypatch, tmp_path / "cache") as to:
        yield to


def keep(tmp_path):
    """Lays the tiny checkpoint out as the Hub's client keeps a download."""
    kept = tmp_path / "cache" / "models--somebody--tiny"
    shutil.copytree(GOLDEN / "bert", kept / "snapshots" / COMMIT)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)


class Model(Server):
    """A Hub of one model: its commit, the list of its files, and the files."""

    def do_GET(self):
        path = self.path.split("?")[0]
        file = self.server.folder / path.rpartition("/")[2]
        if path.startswith(f"/api/models/{self.server.id}"):
            return super().do_GET()
        if "/resolve/" in path and file.is_file():
            return self.answer(200, file.read_bytes(), X_Repo_Commit=COMMIT, ETag=f'"{file.name}"')
        return self.answer(404, b"")

    do_HEAD = do_GET


def test_a_hub_that_cannot_be_reached_is_given_up(hub, tmp_path, caplog):
    """How soon, and what it may answer, is in tests/corpora/test_hub.py."""
    hub(9)
    with pytest.raises(FileNotFoundError, match="run `hf download somebody/tiny` and pass the folder"):
        lj.load_encoder("somebody/tiny")
    # Files in the cache are used.
    keep(tmp_path)
    with caplog.at_level(logging.WARNING, logger="lsar_jax"):
        assert lj.load_encoder("somebody/tiny").spec.revision == COMMIT
    assert "using the files cached in" in caplog.text


def test_a_preset_asks_for_its_commit(monkeypatch):
    asked = []

    def locate(id, revision, **arguments):
        asked.append((id, revision))
        return GOLDEN / "bert", id, revision

    monkeypatch.setattr("lsar_jax.encoders.load.locate", locate)
    monkeypatch.setitem(PRESETS, "tiny", Preset("a/b", "c0ffee", 2, "max"))
    encoder = lj.load_encoder("tiny")
    assert (encoder.spec.layer, encoder.spec.pooling, encoder.spec.revision) == (2, "max", "c0ffee")
    # All blocks are there, and any layer can be asked for.
    assert encoder.encode(["abc"], layers=(3, 2)).shape == (2, 1, 32)
    np.testing.assert_array_equal(encoder.encode(["abc"]), encoder.encode(["abc"], layers=(2,))[0])
    assert len(encoder.model.blocks) == 3
    deep = lj.load_encoder("tiny", layer=3, pooling="mean", revision="other")
    assert (deep.spec.layer, deep.spec.pooling, deep.spec.revision) == (3, "mean", "other")
    assert asked == [("a/b", "c0ffee"), ("a/b", "other")]


def test_a_hub_id_from_the_hubs_cache(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    keep(tmp_path)
    for revision in (None, COMMIT):
        encoder = lj.load_encoder("somebody/tiny", revision=revision)
        assert (encoder.spec.id, encoder.spec.revision) == ("somebody/tiny", COMMIT)
    np.testing.assert_array_equal(encoder.encode("abc"), tiny.encode("abc"))
    with pytest.raises(FileNotFoundError, match="run `hf download somebody/tiny --revision v2`"):
        lj.load_encoder("somebody/tiny", revision="v2")
    (tmp_path / "cache/models--somebody--tiny/snapshots" / COMMIT / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="no safetensors on the Hub.*lsar-jax convert somebody/tiny NEW_FOLDER"):
        lj.load_encoder("somebody/tiny")


def test_a_download_is_found_again_offline(hub, monkeypatch):
    with serve(GOLDEN / "bert", "somebody/tiny", Model) as web:
        hub(web.server_address[1])
        monkeypatch.setattr(lsar_hub, "PATIENCE", 10.0)
        encoder = lj.load_encoder("somebody/tiny")
    assert encoder.spec.revision == COMMIT
    np.testing.assert_array_equal(encoder.encode("abc"), lj.load_encoder(GOLDEN / "bert").encode("abc"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert lj.load_encoder("somebody/tiny").spec == encoder.spec
