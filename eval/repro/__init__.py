"""Reproduction cards: for each table and figure of the papers, its commands, data, published numbers and what came out.

python -m eval repro                                   # every card, and whether its data is here
python -m eval repro xie-table-1 --encoder mbert       # runs its commands, and compares with the paper
"""
