"""Readers and makers of evaluation sets."""
