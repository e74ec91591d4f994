"""Reads the data of an explorer's page."""

import base64
import json
import re
import zlib

import numpy as np

__all__ = ["cosines", "data_of", "near", "numbers", "state_of"]


def data_of(html):
    """The data in a page; lists of a layer are arrays ``[sentence, state, k]``, and maps ``[state, sentence, 2]``."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])
    count, k = len(data["texts"]), data["k"]
    for layer in data["layers"]:
        states = len(layer["states"])
        layer["near"], layer["cosines"] = (
            numbers(layer[name]).reshape(count, states, k) for name in ("near", "cosines")
        )
        layer["planes"], layer["tsne"] = (numbers(layer[name]).reshape(-1, count, 2) for name in ("planes", "tsne"))
    return data


def numbers(packed):
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)) if packed else b"", "<i2")


def state_of(layer, name, rank=None):
    """The number of the state of a method and a rank."""
    [method] = [method for method in layer["methods"] if method["name"] == name]
    return method["first"] + (0 if method["ranks"] is None else method["ranks"].index(rank))


def cosines(y):
    """The cosine of all pairs, and -9 of a row with itself."""
    unit = y / np.linalg.norm(y, axis=1, keepdims=True)
    return unit @ unit.T - 10 * np.eye(len(y))


def near(similar, k):
    """The rows nearest to each."""
    return np.argsort(-similar, axis=1, kind="stable")[:, :k]
