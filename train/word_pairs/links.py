"""Links between the words of a sentence and of its translation: symmetrized, and reduced to those worth training on.

Wu and Dredze (EMNLP 2020) align in both directions, combine the directions by grow-diag-final-and (Koehn, Och and
Marcu, "Statistical Phrase-Based Translation", NAACL 2003), and then keep one-to-one links between different words.
"""

import re
from collections import Counter
from collections.abc import Iterable

from lsar_jax.corpora.text_rules import separated

__all__ = ["Links", "grow_diag_final_and", "one_to_one", "parse_links"]

# Pairs of the index of an English word and the index of a word of the translation.
Links = frozenset[tuple[int, int]]

# In the order in which Koehn's description visits them.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: Iterable[tuple[int, int]], backward: Iterable[tuple[int, int]]) -> Links:
    """Returns the links that both directions agree on, and links of one direction that the others make likely.

    Neighbours of a link in the union are added that have a word without one (grow-diag), and then links whose words
    both have none (final-and), of the forward direction first. The English index comes first in both directions.
    """
    forward, backward = frozenset(forward), frozenset(backward)
    links = set(forward & backward)
    firsts, seconds = {i for i, _ in links}, {j for _, j in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        firsts.add(link[0])
        seconds.add(link[1])

    # Every link that is added is in the union, so that this order visits it as a walk over the whole grid would.
    union = sorted(forward | backward)
    before = -1
    while before < len(links):
        before = len(links)
        for i, j in union:
            if (i, j) in links:
                for down, right in _NEIGHBOURS:
                    near = (i + down, j + right)
                    if (near[0] not in firsts or near[1] not in seconds) and (near in forward or near in backward):
                        add(near)
    for direction in (forward, backward):
        for link in sorted(direction):
            if link[0] not in firsts and link[1] not in seconds:
                add(link)
    return frozenset(links)


def one_to_one(links: Iterable[tuple[int, int]]) -> Links:
    """Returns the links whose words both have no other link."""
    links = frozenset(links)
    firsts, seconds = Counter(i for i, _ in links), Counter(j for _, j in links)
    return frozenset((i, j) for i, j in links if firsts[i] == 1 and seconds[j] == 1)


def parse_links(line: str, english: int, other: int) -> Links:
    """Returns the links of a line in Pharaoh format, such as ``0-0 1-2``, between sentences of so many words.

    Raises:
      ValueError: an item is not two indices joined by a hyphen, or an index has no word.
    """
    links = set()
    for item in separated(line):
        match = re.fullmatch(r"(\d+)-(\d+)", item, re.ASCII)
        link = (int(match[1]), int(match[2])) if match else (english, other)
        if not (link[0] < english and link[1] < other):
            raise ValueError(f"{item!r} is not a link of two words such as 0-2; the sides have {english} and {other}")
        links.add(link)
    return frozenset(links)
