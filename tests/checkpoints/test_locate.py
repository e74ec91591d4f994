"""The Hub: what is kept is used, and one that does not answer is given up soon."""

import http.server
import json
import logging
import shutil
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax import hub as lsar_hub
from lsar_jax.encoders import PRESETS, Preset
from tests.parity import GOLDEN

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Points the Hub's client at a server of this machine, or at a closed port, with a cache of its own."""
    import huggingface_hub
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(lsar_hub, "PATIENCE", 0.5)
    with ExitStack() as servers:

        def point(reply):
            url = f"http://127.0.0.1:{servers.enter_context(server(reply)) if reply else 9}"
            monkeypatch.setattr(constants, "ENDPOINT", url)
            template = url + "/{repo_id}/resolve/{revision}/{filename}"
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
            api = huggingface_hub.HfApi
            monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=url))
            huggingface_hub.close_session()

        yield point
    huggingface_hub.close_session()


def keep(tmp_path):
    """Lays the tiny checkpoint out as the Hub's client keeps a download."""
    kept = tmp_path / "cache" / "models--somebody--tiny"
    shutil.copytree(GOLDEN / "bert", kept / "snapshots" / COMMIT)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)


def answer(handler, status, data=b"", **headers):
    handler.send_response(status)
    for name, value in {**headers, "Content-Length": len(data)}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(data)


@contextmanager
def server(reply):
    """A web server of this machine, and its port; ``reply`` answers every request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        do_GET = do_HEAD = reply

        def log_message(self, *args):
            pass

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        yield web.server_address[1]
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


def serving(request):
    """A Hub of one model: its commit, the list of its files, and the files."""
    sizes = {file.name: file.stat().st_size for file in (GOLDEN / "bert").iterdir()}
    entries = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in sizes.items()]
    info = {"id": "somebody/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in sizes]}
    path = request.path.split("?")[0]
    name = path.rsplit("/", 1)[-1]
    if path.startswith("/api/models/somebody/tiny"):
        answer(request, 200, json.dumps(entries if "/tree/" in path else info).encode())
    elif "/resolve/" in path and name in sizes:
        answer(request, 200, (GOLDEN / "bert" / name).read_bytes(), X_Repo_Commit=COMMIT, ETag=f'"{name}"')
    else:
        answer(request, 404)


def test_a_hub_that_cannot_be_reached_is_given_up(hub, tmp_path, caplog):
    """How soon, and what it may answer, is in tests/corpora/test_hub.py."""
    hub(None)
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


def test_a_download_is_found_again_offline(hub, monkeypatch, caplog):
    hub(serving)
    monkeypatch.setattr(lsar_hub, "PATIENCE", 10.0)
    encoder = lj.load_encoder("somebody/tiny")
    assert encoder.spec.revision == COMMIT
    np.testing.assert_array_equal(encoder.encode("abc"), lj.load_encoder(GOLDEN / "bert").encode("abc"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert lj.load_encoder("somebody/tiny").spec == encoder.spec
