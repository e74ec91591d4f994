"""Figures of the evaluations, each as a PNG for the screen and a PDF for a paper."""
