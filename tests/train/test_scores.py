"""Scores of tags and trees, against seqeval, networkx and all trees there are."""

import itertools

import networkx
import numpy as np
import pytest
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from train.finetune.ner import span_f1, spans
from train.finetune.parsing import best_tree
from train.finetune.task import accuracy

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def test_spans_and_f1_are_those_of_seqeval(rng):
    right, found = ([rng.choice(TAGS, n).tolist() for n in rng.integers(1, 12, 300)] for _ in range(2))
    found = [
        [other if rng.random() < 0.4 else one for one, other in zip(a, itertools.cycle(b), strict=False)]
        for a, b in zip(right, found, strict=True)
    ]
    for tags in right:
        assert spans(tags) == {(kind, first, last + 1) for kind, first, last in get_entities(tags)}
    expected = f1_score(right, found)
    assert 0.2 < expected < 0.9
    assert span_f1(right, found) == pytest.approx(100 * expected, rel=1e-9)
    assert span_f1([["O"]], [["O"]]) == 0
    assert accuracy(["a", "b"], ["a", "c"]) == 50


def test_the_best_tree_is_that_of_networkx(rng):
    for n in (6, 15, 30):
        scores = rng.standard_normal((n, n))
        np.fill_diagonal(scores, -1e9)
        graph = networkx.DiGraph()
        for word, head in itertools.product(range(1, n), range(n)):
            if word != head:
                graph.add_edge(head, word, weight=scores[word, head])
        tree = networkx.maximum_spanning_arborescence(graph)
        assert {(head, word) for word, head in enumerate(best_tree(scores)[1:].tolist(), 1)} == set(tree.edges)
