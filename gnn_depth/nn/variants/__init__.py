"""Other ways to run the blocks of a stack: with activation checkpointing, reversible, exported."""
