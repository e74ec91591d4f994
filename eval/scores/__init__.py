"""Scores that several tasks share: in a pool of languages, over pairs of languages and scripts, of translations."""
