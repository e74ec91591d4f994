"""Batches of columns: the same vectors from all kinds of tables, and whole jobs of the engines that call the class."""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lsar_jax as lj
from lsar_jax.encoders import encode_batch
from tests.encoders.test_sentence_encoder import relative, texts
from tests.optional import need

CODES, TEXT = ("de", "en", "fr"), texts(np.random.default_rng(0), 400, 20)
COLUMNS = {"id": list(range(400)), "text": TEXT, "language": [CODES[i % 3] for i in range(400)]}


@pytest.mark.parametrize("kind", [dict, pa.table, lambda columns: need("pandas").DataFrame(columns)])
def test_all_kinds_of_columns_give_the_vectors_of_encode(tiny, tiny_folder, kind):
    for count in (9, 0):
        batch = kind({"text": np.asarray(TEXT[:count], object)})
        result = lj.EncodeBatch(tiny_folder, normalize=True)(batch)
        assert type(result) is type(batch)
        assert list(getattr(result, "column_names", result)) == ["text", "embedding"]
        vectors = np.asarray(encode_batch._listed(result["embedding"]), np.float32).reshape(count, 32)
        np.testing.assert_array_equal(vectors, tiny.encode(TEXT[:count], normalize=True))


def test_a_process_loads_once_and_the_transform_is_a_value_or_a_file(tiny, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(encode_batch, "load_encoder", lambda *args, **options: loads.append(options) or tiny)
    loads, centre = [], lj.transforms.fit_center({code: tiny.encode(TEXT[i::3]) for i, code in enumerate(CODES)})
    centre.save(tmp_path / "centre")
    wanted = tiny.with_transform(centre).encode(TEXT, language=COLUMNS["language"])
    for transform in 2 * (centre, tmp_path / "centre"):
        encode = lj.EncodeBatch(tiny_folder, transform=transform, language_column="language", embedding="x")
        for copy in (encode, pickle.loads(pickle.dumps(encode))):
            np.testing.assert_array_equal(copy(COLUMNS)["x"], wanted)
    assert len(loads) == 2


def test_refuses_options_and_batches_in_one_line(tiny_folder, unchecked):
    with pytest.raises(TypeError, match=r"^EncodeBatch\(\) got an unexpected option 'layers'; its options are revis"):
        lj.EncodeBatch("bundled", layers=(1, 2))
    with pytest.raises(ValueError, match="^language is 'de', and language_column 'code'; give one of the two"):
        lj.EncodeBatch("bundled", language="de", language_column="code")
    for batch, error in (
        ({"body": ["a"]}, "the batch has the columns 'body'; it must have 'text', and not 'embedding', which is added"),
        ({"text": ["a"], "embedding": [1]}, "the batch has the columns 'text', 'embedding'; .*not 'embedding'"),
        ({"text": "a row"}, "column 'text' is one string; give batches of rows, in datasets batched=True"),
        ({"text": np.array([3, 4])}, "column 'text', row 0 is of type int, not a str: 3"),
        (pa.table({"text": ["a", None]}), "column 'text', row 1 is of type NoneType, not a str: None"),
    ):
        with pytest.raises(ValueError, match=f"^{error}"):
            lj.EncodeBatch(tiny_folder)(batch)


@pytest.mark.slow
def test_datasets_maps_batches_and_knows_the_same_call_again(tiny, tiny_folder, tmp_path):
    text = need("datasets").Dataset.from_dict(COLUMNS)
    text.save_to_disk(tmp_path)
    text = need("datasets").load_from_disk(tmp_path)
    batches = (lj.EncodeBatch(tiny_folder, layer=layer) for layer in (3, 3, 2))
    first, again, other = (text.map(batch, batched=True, batch_size=150) for batch in batches)
    assert first.cache_files == again.cache_files != other.cache_files
    assert relative(np.array(first["embedding"], np.float32), tiny.encode(TEXT)) <= 1e-5


@pytest.mark.slow
def test_ray_with_a_killed_worker_loses_and_doubles_no_row(tiny, tiny_folder):
    need("ray.data")
    # Not tmp_path: the paths of Ray's sockets must be short.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text").mkdir()
        for part in range(16):
            need("pyarrow.parquet").write_table(pa.table(COLUMNS).slice(25 * part, 25), f"{folder}/text/{part}.parquet")
        command = [sys.executable, "-m", "tests.encoders.ray_job", folder, str(tiny_folder)]
        environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
        job = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
        assert job.returncode == 0, job.stderr
        assert folder not in subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout
        table = need("pyarrow.parquet").read_table(f"{folder}/vectors").sort_by("id").to_pydict()
        killed, moments = Path(folder, "killed").read_text(), pickle.loads(Path(folder, "moments").read_bytes())
    assert table["id"] == COLUMNS["id"]
    assert len({*table["worker"], int(killed)}) == 3  # two, and the one started instead
    vectors = np.array(table["embedding"], np.float32)
    assert relative(vectors, tiny.encode(TEXT)) <= 1e-5
    assert {row.get("language") for row in moments} == {*CODES, None}
    for row in moments:
        found, here = row["embedding"], vectors[CODES.index(row["language"]) :: 3] if "language" in row else vectors
        wanted = lj.Moments.from_embeddings(here, second_moment=True)
        assert found.count == len(here)
        assert relative(found.mean, wanted.mean) <= 1e-6
        assert relative(found.scatter.ravel(), wanted.scatter.ravel()) <= 1e-6
