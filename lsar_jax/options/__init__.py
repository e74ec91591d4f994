"""What commands are given: the encoder, text and vectors, and checks of their values."""
