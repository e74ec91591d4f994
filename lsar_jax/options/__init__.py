"""What commands are given: the encoder, text and vectors."""
