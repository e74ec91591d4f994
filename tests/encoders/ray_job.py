"""Encodes a folder with Ray Data on two workers, one of which is killed, and sums moments; test_engines.py runs it."""

import os
import pickle
import signal
import sys
from pathlib import Path

import pyarrow as pa
import ray

import lsar_jax as lj


class KilledOnce(lj.EncodeBatch):
    """Kills its process when it has encoded the batch with row 210, unless the file ``killed`` exists."""

    killed = Path(sys.argv[1], "killed")

    def __call__(self, table):
        encoded = super().__call__(table)
        if 210 in table["id"].to_pylist() and not self.killed.exists():
            self.killed.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return encoded.append_column("worker", pa.array([os.getpid()] * len(encoded)))


if __name__ == "__main__":
    folder, encoder = sys.argv[1:]
    # Two actors take two of the logical CPUs; reading and writing take the others.
    ray.init(num_cpus=4, object_store_memory=100 << 20, include_dashboard=False, _temp_dir=f"{folder}/ray")
    two, text = ray.data.ActorPoolStrategy(size=2), ray.data.read_parquet(f"{folder}/text").repartition(20)
    options = {"batch_format": "pyarrow", "batch_size": 5, "compute": two}
    encoded = text.map_batches(KilledOnce, fn_constructor_args=[encoder], **options)
    encoded.write_parquet(f"{folder}/vectors")
    ray.data.DataContext.get_current().shuffle_input_batch_bytes = 0  # sum each block alone, and merge the sums
    vectors = ray.data.read_parquet(f"{folder}/vectors").repartition(8)
    total = lj.moments.ray_aggregation(second_moment=True)
    moments = [*vectors.groupby("language", 2).aggregate(total).take_all(), vectors.aggregate(total)]
    Path(folder, "moments").write_bytes(pickle.dumps(moments))
    ray.shutdown()
