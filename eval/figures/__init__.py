"""The pictures of the evaluations: each a PNG for the screen and a PDF for a paper."""
