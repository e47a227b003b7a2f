"""Functions of tensors that layers and norms are built from."""

from gnn_depth.nn.functional.additive import edge_additive
from gnn_depth.nn.functional.attention import attend, attend_additive, attend_linear
from gnn_depth.nn.functional.blocks import convolution, elu, group_sort
from gnn_depth.nn.functional.dropout import dropout
from gnn_depth.nn.functional.segments import (
    at_source,
    at_target,
    first_rows,
    graph_mean,
    head_dots,
    padded,
    plus,
    segment_max,
    segment_softmax,
    segment_sum,
    targets,
    widen,
)
from gnn_depth.nn.functional.sizes import neighbourhood_size
from gnn_depth.nn.functional.sparse import aggregate, drop_entries, edge_dot, sum_messages
from gnn_depth.nn.functional.sparse_features import SparseFeatures, sparse_features
