"""Alignment of an encoder beside a plain PyTorch loop of the same objective.

Both train the bundled encoder with the strong contrastive objective and the same batches of real text, keep it close to
its start, and take steps of Adam. PyTorch pads each side of a batch to its longest sentence. The answer is the loss
after the same steps without dropout; the times are with dropout, for the tokens without padding. The bound is the
time of the matrix products of the encoder, forward and backward, at the measured rate of the feed-forward product.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import Int

from eval.bench.peers.timing import HERE, Timing, fastest, import_torch, operations_per_token, product_rate
from lsar_jax import SentenceEncoder, load_encoder
from train.align.batches import ChunkSizes, PairBatch, batch_of, order_of
from train.align.examples import Examples, word_examples
from train.align.steps import EncoderSteps, StepOptions, Terms
from train.encoder_parameters import EncoderParts, take_apart
from train.word_pairs.aligned_files import read_aligned

__all__ = ["align"]

_RATE, _WIDTH, _TEMPERATURE, _DROPOUT, _MAX_LENGTH = 1e-5, 128, 0.1, 0.1, 96

# Trains from the start with a share of hidden states and attention weights zeroed; returns the last loss.
Train = Callable[[float], float]


def align(
    words: Path = Path("results/word-pairs"), checkpoint: str = "bundled", batch: int = 64, steps: int = 4,
    repeats: int = 3,
) -> Iterator[Timing]:  # fmt: skip
    """Times the steps of an alignment on word-aligned text; raises ValueError for fewer pairs than in a batch."""
    torch, device = import_torch()
    encoder = load_encoder(checkpoint, param_dtype="float32")
    examples = word_examples(encoder.tokenizer, read_aligned(words, "validation"), _MAX_LENGTH)
    if len(examples) < batch:
        raise ValueError(f"{words} has {len(examples)} pairs; a batch has {batch}")
    order = order_of(0, len(examples), batch, 0, steps)
    sizes = ChunkSizes(512, _MAX_LENGTH, encoder.mesh.size)
    batches = [batch_of(examples, rows.tolist(), sizes, encoder.tokenizer.pad_id) for rows in order]
    ours, projector = _ours(encoder, batches)
    with TemporaryDirectory() as folder:
        encoder.to_sentence_transformers(Path(folder) / "encoder")
        theirs = _torch(torch, device, Path(folder) / "encoder", examples, encoder.tokenizer.pad_id, order, projector)
    versions: dict[str, Train] = {HERE: ours, "PyTorch": theirs}
    losses = {version: train(0.0) for version, train in versions.items()}
    seconds, _ = fastest({version: partial(train, _DROPOUT) for version, train in versions.items()}, repeats)
    tokens, config = sum(rows.tokens for rows in batches), encoder.model.config
    rate = product_rate((1024, config.hidden, config.intermediate))
    needed = tokens * 3 * operations_per_token(encoder.model) / rate
    for version, took in seconds.items():
        answer = f"loss {losses[version]:.5f}"
        yield Timing("strong, float32", version, 1000 * took / tokens, "1000 tokens", 100 * needed / took, answer)


def _ours(encoder: SentenceEncoder, batches: list[PairBatch]) -> tuple[Train, Any]:
    """Our steps, and the weights of the projector that the objective adds."""
    apart = take_apart(EncoderParts(encoder.model, None), False)
    trained = apart[1]

    def steps(dropout: float) -> EncoderSteps:
        options = StepOptions(
            objective="strong", temperature=_TEMPERATURE, projected=_WIDTH, stay_close=1.0,
            dropout=dropout, remat=False, layer=encoder.spec.layer, pooling=encoder.pooling,
            specials=encoder.tokenizer.specials,
        )  # fmt: skip
        return EncoderSteps(apart, options, optax.constant_schedule(_RATE), encoder.mesh)

    programs = {dropout: steps(dropout) for dropout in (0.0, _DROPOUT)}

    def train(dropout: float) -> float:
        state = programs[dropout].init(trained, jax.random.key(0))
        terms: Terms = {}
        for number, batch in enumerate(batches):
            state, terms = programs[dropout].step(state, batch, jax.random.key(number))
        return sum(float(value) for value in terms.values())

    return train, programs[0.0].init(trained, jax.random.key(0)).projector


def _torch(
    torch: Any, device: str, folder: Path, examples: Examples, pad_id: int, order: Int[np.ndarray, "step pair"],
    projector: Any,
) -> Train:  # fmt: skip
    """The same objective as a plain PyTorch loop."""
    from transformers import AutoModel

    functional = torch.nn.functional
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).to(device)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    links: Any = examples.links

    def hidden(texts: list[Any]) -> Any:
        rows = [torch.from_numpy(np.asarray(text, np.int64)) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id).to(device)
        return model(ids, (ids != pad_id).long()).last_hidden_state

    def train(dropout: float) -> float:
        model.load_state_dict(weights)
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        inner, outer = (torch.from_numpy(np.array(part)).to(device).requires_grad_() for part in projector)
        start = [value.detach().clone() for value in model.parameters()]
        adam = torch.optim.Adam([*model.parameters(), inner, outer], lr=_RATE)
        for rows in order.tolist():
            sides = []
            for side, texts in enumerate((examples.source, examples.target)):
                states = hidden([texts[row] for row in rows])
                places = [torch.from_numpy(links[row][:, side].astype(np.int64)).to(device) for row in rows]
                sides.append(torch.cat([x[place] for x, place in zip(states, places, strict=True)]))
            unit = functional.normalize(torch.relu(torch.cat(sides) @ inner.T) @ outer.T, dim=1)
            count = len(sides[0])
            scores = unit @ unit.T / _TEMPERATURE - 1e6 * torch.eye(2 * count, device=device)
            index = torch.arange(count, device=device)
            loss = functional.cross_entropy(scores, torch.cat([index + count, index]))
            changes = [torch.linalg.vector_norm(x - y) for x, y in zip(model.parameters(), start, strict=True)]
            loss = loss + torch.linalg.vector_norm(torch.stack(changes))
            adam.zero_grad()
            loss.backward()
            adam.step()
        return float(loss.detach())

    return train
