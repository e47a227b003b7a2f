"""Training in less memory: activation checkpointing and reversible blocks."""
