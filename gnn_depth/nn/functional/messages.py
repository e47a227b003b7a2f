"""Messages with dropped entries, for layers that say ``drops_messages``."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.dropout import dropout
from gnn_depth.nn.functional.segments import at_source, segment_sum
from gnn_depth.nn.functional.sparse import aggregate


def sum_messages(
    weights: Float[Tensor, "edges *heads"],
    x: Float[Tensor, "sources *heads channels"],
    graph: Graph,
) -> Float[Tensor, "nodes *heads channels"]:
    r"""Sum the messages :math:`w_{ij} x_j` into each node, without the entries that are dropped.

    It is :func:`gnn_depth.nn.functional.aggregate` on a graph without ``message_dropout``.
    """
    if not graph.message_dropout:
        return aggregate(weights, x, graph)
    # Every entry is dropped by itself, so here the messages must exist: edges x channels.
    sent = at_source(x.flatten(1), graph).view(-1, *x.shape[1:])
    messages = drop_entries(weights[..., None] * sent, graph)
    return segment_sum(messages.flatten(1), graph).view(-1, *x.shape[1:])


def drop_entries(
    messages: Float[Tensor, "edges *channels"], graph: Graph
) -> Float[Tensor, "edges *channels"]:
    """Drop entries of messages with the graph's ``message_dropout``; scale up the others."""
    # A graph has this dropout in training alone, and a shard's edges keep their numbers.
    flat = dropout(messages.flatten(1), graph.message_dropout, True, graph.edge_numbers)
    return flat.view(messages.shape)
