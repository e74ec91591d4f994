"""Speed of alignment compared with a plain PyTorch loop of the same objective, in the same run on the same device.

    pip install torch
    python -m eval alignbench --words results/word-pairs

Both train the same encoder with the strong contrastive objective and the same batches of real text, keep it close to
its start, and take steps of Adam. The PyTorch version is straightforward: transformers' model, each side of a batch
padded to its longest sentence, and losses from ``torch.nn.functional``. Without dropout, the losses of both after the
same steps are printed first. The speed counts the tokens of the text, without padding. The upper bound is that of the
matrix products of the encoder, forward and backward, at the measured rate of a product of the feed-forward layer.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jaxtyping import Int

from eval.speed.peer import import_torch
from eval.speed.timing import HERE, Measured, operations_per_token, times
from lsar_jax import SentenceEncoder
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import EncoderChoice
from lsar_jax.cli.option_checks import at_least
from lsar_jax.models.transformer import TransformerConfig
from train.align.batches import ChunkSizes, PairBatch, batch_of, order_of
from train.align.examples import Examples, word_examples
from train.align.steps import EncoderSteps, State, StepOptions, Terms
from train.encoder_parameters import EncoderParts, take_apart
from train.word_pairs.aligned_files import read_aligned

__all__ = ["AlignBench"]

_RATE, _WIDTH, _TEMPERATURE = 1e-5, 128, 0.1


@dataclass(frozen=True)
class AlignBench:
    """Measures tokens per second of alignment, here and in PyTorch.

    Attributes:
      words: folder of word-aligned text, from python -m train.word_pairs.
      languages: language codes; by default, all available.
      encoder: the encoder.
      layer: layer to align; by default, the last.
      batch: number of sentence pairs per step.
      steps: number of steps per timed run.
      repeats: number of timed runs of each version, which take turns; the fastest counts.
      chunk_tokens: token positions to encode at a time, here; 0 for the whole batch.
      dropout: share of hidden states and attention weights to zero, while timing.
    """

    words: Path = Path("results/word-pairs")
    languages: tuple[str, ...] = ()
    encoder: tyro.conf.OmitArgPrefixes[EncoderChoice] = field(default_factory=lambda: EncoderChoice(max_length=96))
    layer: int | None = None
    batch: int = 64
    steps: int = 4
    repeats: int = 3
    chunk_tokens: int = 512
    dropout: float = 0.1

    def run(self) -> list[Measured]:
        """Times both versions, prints the table and returns the times."""
        at_least(1, batch=self.batch, steps=self.steps, repeats=self.repeats)
        at_least(0, chunk_tokens=self.chunk_tokens)
        encoder = self.encoder.open(self.layer, "float32")
        encoder.check_exportable()
        pairs = {code: one for code, (one, _) in read_aligned(self.words, "validation", self.languages).items()}
        examples = word_examples(encoder.tokenizer, pairs, self.encoder.max_length)
        if len(examples) < self.batch:
            raise ValueError(f"--batch is {self.batch}; it must be at most the number of pairs, {len(examples)}")
        order = order_of(0, len(examples), self.batch, 0, self.steps)
        sizes = ChunkSizes(self.chunk_tokens, self.encoder.max_length, encoder.mesh.size)
        batches = [batch_of(examples, rows.tolist(), sizes, encoder.tokenizer.pad_id) for rows in order]
        tokens = sum(batch.tokens for batch in batches)
        here, start = _Ours(encoder, 0.0), _Ours(encoder, self.dropout)
        dtype = encoder.spec.dtype
        with TemporaryDirectory() as folder:
            encoder.to_sentence_transformers(Path(folder) / "encoder")
            peer = _Peer(Path(folder) / "encoder", examples, encoder.tokenizer.pad_id, here.state, dtype)
        losses = here.train(batches), peer.train(order, 0.0)
        console.print(f"loss after {self.steps} steps without dropout: {losses[0]:.5f}, PyTorch {losses[1]:.5f}")
        started = time.perf_counter()
        start.train(batches)
        console.print(f"compiled and ran {self.steps} steps in {time.perf_counter() - started:.1f} s")
        seconds: dict[str, list[float]] = {HERE: [], "PyTorch": []}
        for _ in range(self.repeats):
            seconds[HERE] += times(lambda: start.train(batches), 1)
            seconds["PyTorch"] += times(lambda: peer.train(order, self.dropout), 1)
        best = {name: tokens / min(values) for name, values in seconds.items()}
        positions = sum(chunk.ids.size for batch in batches for chunk in batch.chunks)
        operations = 3 * operations_per_token(encoder.model.config)
        rate = _product_rate(encoder.model.config, dtype)
        bound = rate / operations
        console.print(
            f"{tokens} tokens, {100 * (1 - tokens / positions):.0f}% of our positions are padding; "
            f"{operations / 1e6:.0f} MFLOP per token, and {rate / 1e9:.0f} GFLOP/s: at most {bound:.0f} tokens/s"
        )
        rows: list[list[str | float]] = [
            [name, value, f"{value / best['PyTorch']:.2f}", f"{100 * value / bound:.0f}%"]
            for name, value in best.items()
        ]
        title = f"Strong alignment of {encoder.spec.id}, batch {self.batch}, {dtype}, {jax.devices()[0].device_kind}"
        print_table(title, ["", "tokens/s", "x PyTorch", "% of matmul bound"], rows)
        return [
            Measured(f"strong, {dtype}", name, 1000 / value, "1000 tokens", 100 * value / bound)
            for name, value in best.items()
        ]


class _Ours:
    """Our steps, each run from the same start."""

    def __init__(self, encoder: SentenceEncoder, dropout: float) -> None:
        skeleton, trained, frozen = take_apart(EncoderParts(encoder.model, None), False)
        options = StepOptions(
            objective="strong", temperature=_TEMPERATURE, projected=_WIDTH, stay_close=1.0, squared=False,
            stay_close_hidden=0.0, dropout=dropout, remat=False, cached=False, layer=encoder.spec.layer,
            pooling=encoder.pooling, specials=encoder.tokenizer.specials,
        )  # fmt: skip
        self._trained = trained
        self._steps = EncoderSteps(skeleton, trained, frozen, options, optax.constant_schedule(_RATE), encoder.mesh)

    @property
    def state(self) -> State:
        """The state at the start."""
        return self._steps.init(self._trained, jax.random.key(0))

    def train(self, batches: list[PairBatch]) -> float:
        """Trains from the start on the batches; returns the last loss."""
        state = self.state
        terms: Terms = {}
        for number, batch in enumerate(batches):
            state, terms = self._steps.step(state, batch, jax.random.key(number))
        return sum(float(value) for value in terms.values())


class _Peer:
    """The same objective as a plain PyTorch loop."""

    def __init__(self, folder: Path, examples: Examples, pad_id: int, state: State, dtype: str) -> None:
        from transformers import AutoModel

        self.torch, self.device = import_torch()
        torch = self.torch
        # As here, the parameters stay in float32.
        self.computed = torch.autocast(self.device, torch.bfloat16, enabled=dtype == "bfloat16")
        self.examples, self.pad_id = examples, pad_id
        self.model = AutoModel.from_pretrained(folder, add_pooling_layer=False).to(self.device)
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}
        assert state.projector is not None
        self.projector = [torch.from_numpy(np.array(part)).to(self.device) for part in state.projector]

    def train(self, order: Int[np.ndarray, "step pair"], dropout: float) -> float:
        """Trains from the start on the batches; returns the last loss."""
        torch = self.torch
        functional = torch.nn.functional
        self.model.load_state_dict(self.start)
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        inner, outer = (part.clone().requires_grad_() for part in self.projector)
        start = [value.detach().clone() for value in self.model.parameters()]
        adam = torch.optim.Adam([*self.model.parameters(), inner, outer], lr=_RATE)
        loss = torch.zeros(())
        for rows in order.tolist():
            sides = []
            for side, texts in enumerate((self.examples.source, self.examples.target)):
                states = self._states([texts[row] for row in rows])
                sides.append(torch.cat([x[self._positions(row, side)] for x, row in zip(states, rows, strict=True)]))
            moved = [torch.relu(x @ inner.T) @ outer.T for x in sides]
            every = functional.normalize(torch.cat(moved), dim=1)
            n = len(moved[0])
            scores = every @ every.T / _TEMPERATURE - 1e6 * torch.eye(2 * n, device=self.device)
            index = torch.arange(n, device=self.device)
            loss = functional.cross_entropy(scores, torch.cat([index + n, index]))
            now = self.model.parameters()
            changes = [torch.linalg.vector_norm(new - old) for new, old in zip(now, start, strict=True)]
            loss = loss + torch.linalg.vector_norm(torch.stack(changes))
            adam.zero_grad()
            loss.backward()
            adam.step()
        return float(loss.detach())

    def _states(self, texts: list[Any]) -> Any:
        torch = self.torch
        width = max(map(len, texts))
        ids = np.full((len(texts), width), self.pad_id)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
        mask = np.arange(width) < np.array([len(text) for text in texts])[:, None]
        given = (torch.from_numpy(part).to(self.device) for part in (ids, mask.astype(np.int64)))
        with self.computed:
            return self.model(*given).last_hidden_state.float()

    def _positions(self, row: int, side: int) -> Any:
        assert self.examples.links is not None
        return self.torch.from_numpy(self.examples.links[row][:, side].astype(np.int64)).to(self.device)


def _product_rate(config: TransformerConfig, dtype: str) -> float:
    """Returns the FLOP/s of the product of 1,024 tokens with the feed-forward layer."""
    x, w = (jnp.ones(shape, dtype) for shape in ((1024, config.hidden), (config.hidden, config.intermediate)))
    precision = jax.lax.Precision.HIGHEST if dtype == "float32" else None
    product = jax.jit(lambda x, w: jnp.matmul(x, w, precision=precision, preferred_element_type=jnp.float32))
    product(x, w).block_until_ready()
    return 2 * 1024 * config.hidden * config.intermediate / min(times(lambda: product(x, w).block_until_ready(), 50))
