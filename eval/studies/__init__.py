"""Questions about the methods that no paper's task asks: how much text, which layer, which precision."""
