"""The inputs of commands: the options of an encoder, text and vectors."""
