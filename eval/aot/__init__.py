"""What the programs of the library take on a TPU or GPU, as XLA compiles them ahead of time without one."""
