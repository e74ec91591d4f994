"""Files to models and back: weights, tokenizers, architectures, presets, pickles, exports."""
