"""Training checkpoints whose bytes have changed: they are noticed, and the run goes on from what is whole."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.attack.damage import flip_bit, on_a_full_disk, truncate
from train.checkpoints import Checkpoints

ARRAYS = {"weights": jnp.arange(6000, dtype=jnp.float32), "step": jnp.ones(3)}
LIKE = {name: jnp.zeros_like(value) for name, value in ARRAYS.items()}


@pytest.fixture
def folder(tmp_path):
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        for step in (10, 20):
            arrays = {name: value + step for name, value in ARRAYS.items()}
            checkpoints.save(step, arrays, {"step": step})
    return tmp_path / "checkpoints"


def files_of(folder, step):
    return sorted(path for path in (folder / str(step)).rglob("*") if path.is_file() and path.stat().st_size)


def restored(folder):
    said = []
    with Checkpoints(folder) as checkpoints:
        arrays, position = checkpoints.restore(LIKE, said.append)
    np.testing.assert_array_equal(arrays["weights"], ARRAYS["weights"] + position["step"])
    return position["step"], said


@pytest.mark.parametrize("damage", [flip_bit, truncate])
def test_the_last_good_checkpoint_is_taken(folder, damage, rng):
    assert restored(folder) == (20, [])
    largest = max(files_of(folder, 20), key=lambda path: path.stat().st_size)
    damage(largest, rng)
    step, said = restored(folder)
    assert step == 10
    assert said == [f"{largest} is damaged; going on from the checkpoint of step 10"]
    # The damaged one is set aside, so that its step can be taken again.
    assert (folder / "20.damaged").is_dir()
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(20, {name: value + 20 for name, value in ARRAYS.items()}, {"step": 20})
    assert restored(folder) == (20, [])


def test_without_digests_a_checkpoint_was_not_finished(folder):
    """A run that is killed between the checkpoint and its digests leaves none; the step can be taken again."""
    (folder / "20" / ".nfs0001").write_text("x")  # of somebody else, and does no harm
    assert restored(folder) == (20, [])
    (folder / "20" / "sha256.json").unlink()
    assert restored(folder) == (10, [])
    assert not (folder / "20").exists()


def test_arrays_of_another_shape_are_no_damage(tmp_path):
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, {"weights": jnp.arange(6.0)}, {"step": step})
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        with pytest.raises(ValueError, match=r"/20 cannot be read: [^\n]*$"):
            checkpoints.restore({"weights": jnp.zeros(7)})
        assert checkpoints.restore({"weights": jnp.zeros(6)})[1] == {"step": 20}


def test_a_file_that_is_gone_is_noticed(folder):
    files_of(folder, 20)[0].unlink()
    assert restored(folder)[0] == 10


def test_when_every_checkpoint_is_damaged(folder, rng):
    for step in (10, 20):
        flip_bit(files_of(folder, step)[0], rng)
    refused = pytest.raises(ValueError, match="no checkpoint is whole: .*/20/")
    with Checkpoints(folder) as checkpoints, refused:
        checkpoints.restore(LIKE)
    assert len(list(folder.glob("[0-9]*"))) == 2


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path):
    with on_a_full_disk(tmp_path / "disk", 1 << 20) as disk:
        with Checkpoints(disk / "run") as checkpoints:
            checkpoints.save(10, {name: value + 10 for name, value in ARRAYS.items()}, {"step": 10})
            large = jnp.asarray(np.random.default_rng(0).random(500_000), jnp.float32)
            with pytest.raises(OSError, match="no checkpoint could be written in .*/run: [^\n]*$"):
                checkpoints.save(20, {"weights": large}, {"step": 20})
        assert restored(disk / "run") == (10, [])
        with Checkpoints(disk / "run") as checkpoints:
            checkpoints.save(20, {name: value + 20 for name, value in ARRAYS.items()}, {"step": 20})
        assert restored(disk / "run") == (20, [])
