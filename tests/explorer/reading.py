"""Reads the data of a page, and computes with it as the page says that it does, in float64."""

import base64
import json
import re

import numpy as np

__all__ = ["cosines", "data_of", "moved", "near", "numbers"]


def data_of(page):
    """The data in the page, and the number of its script elements."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.S)[1])


def numbers(packed):
    kind = {"Int8": "i1", "Int16": "<i2", "Int32": "<i4", "Float32": "<f4"}[packed["kind"]]
    values = np.frombuffer(base64.b64decode(packed["data"]), kind).astype(np.float64)
    return values.reshape(packed["shape"]) * packed.get("scale", 1)


def moved(data, layer, method, rank):
    """The coordinates of each sentence after a method: y = z - s - D B^T (z - s) + o, a row at a time."""
    z = numbers(layer["center"]) + numbers(layer["values"]) * numbers(layer["scale"])
    for step in method["steps"]:
        parts = {name: numbers(part) for name, part in step.items()}
        for row, language in enumerate(data["language"]):
            part = {k: v[language] if v.ndim > (2 if k in ("basis", "dual") else 1) else v for k, v in parts.items()}
            v = z[row] - part.get("shift", 0)
            if "basis" in part:
                basis = part["basis"] if method["top"] is None else part["basis"][:, :rank]
                dual = part.get("dual", part["basis"])[:, : basis.shape[1]]
                v = v - dual @ (basis.T @ v)
            z[row] = v + part.get("offset", 0)
    return z


def cosines(y, residual=0.0):
    """The cosine of all pairs, with the lengths of what is outside of the coordinates."""
    lengths = np.sqrt((y**2).sum(axis=1) + residual**2)
    return y @ y.T / lengths / lengths[:, None]


def near(similar, row, k=10):
    """The rows nearest to one."""
    order = np.argsort(-similar[row], kind="stable")
    return order[order != row][:k]
