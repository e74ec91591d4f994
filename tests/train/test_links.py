"""Links of words: against the published pseudo-code on whole grids."""

from itertools import product

import numpy as np

from train.word_pairs.links import grow_diag_final_and


def grow_by_the_grid(forward, backward, rows, columns):
    """Koehn's pseudo-code as printed, over every cell."""
    links, union, cells = set(forward & backward), forward | backward, list(product(range(rows), range(columns)))

    def aligned(cell):
        return [any(i == cell[0] for i, _ in links), any(j == cell[1] for _, j in links)]

    new = True
    while new:
        new = False
        for e, f in (cell for cell in cells if cell in links):
            for a, b in [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]:
                near = (e + a, f + b)
                if near in union and near not in links and not all(aligned(near)):
                    links.add(near)
                    new = True
    for cell in [*(cell for cell in cells if cell in forward), *(cell for cell in cells if cell in backward)]:
        if not any(aligned(cell)):
            links.add(cell)
    return links


def test_grows_as_the_pseudo_code_does(rng):
    grown = 0
    for _ in range(400):
        rows, columns = rng.integers(1, 8, 2)
        grids = [rng.random((rows, columns)) < rng.choice([0.1, 0.25, 0.5]) for _ in range(2)]
        forward, backward = (frozenset(map(tuple, np.argwhere(grid).tolist())) for grid in grids)
        expected = grow_by_the_grid(forward, backward, rows, columns)
        assert grow_diag_final_and(forward, backward) == expected
        grown += forward & backward < expected < forward | backward
    assert grown > 100
