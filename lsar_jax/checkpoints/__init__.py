"""Reading and writing checkpoints: weights, architectures, presets, conversion of pickles, export."""
