"""Measuring: methods to compare, ranking metrics, intervals over queries, and files of results."""
