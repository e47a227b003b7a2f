"""Benchmarks: ``python -m tools.bench`` times training steps beside those of peers."""
