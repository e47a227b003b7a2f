"""Compile the blocks of a stack with ``torch.compile``.

The primitives then run in their reference form, as native kernels cannot be traced. It pays for
parts that are many small operations on edges, such as a norm computed from the score of each edge.
"""

from gnn_depth.nn.block import Blocks


def compile_blocks(blocks: Blocks) -> None:
    """Compile each block at its first pass; blocks of equal shape share compiled code."""
    for block in blocks:
        # The random numbers of uncompiled code: a seed gives the same dropout masks.
        block.compile(dynamic=False, options={"fallback_random": True})
