"""Other ways to run the blocks of a stack: compiled, with activation checkpointing, reversible."""
