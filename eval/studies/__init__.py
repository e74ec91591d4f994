"""Studies beyond the papers' tasks: how much text to fit on, which layer, which precision."""
