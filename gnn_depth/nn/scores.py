"""The ingredients of attention scores, which score norms read."""

from dataclasses import dataclass
from typing import TypeAlias

from gnn_depth.nn.shapes import HeadsChannels, NodesHeadsChannels, SourcesHeadsChannels


@dataclass(frozen=True)
class LinearScore:
    r"""The ingredients of linear attention scores, :math:`s_{ij} = a_{dst} \cdot h_i + a_{src}
    \cdot h_j`.

    Attributes:
        x: h, the features after the layer's linear map.
        att_dst, att_src: Two vectors per head.
    """

    x: SourcesHeadsChannels
    att_dst: HeadsChannels
    att_src: HeadsChannels


@dataclass(frozen=True)
class AdditiveScore:
    r"""The ingredients of additive attention scores, :math:`s_{ij} = a \cdot \sigma(h^{dst}_i +
    h^{src}_j)`.

    Attributes:
        x_dst, x_src: The features of targets and sources after the layer's two linear maps.
        att: a, one vector per head.
    """

    x_dst: NodesHeadsChannels
    x_src: SourcesHeadsChannels
    att: HeadsChannels


@dataclass(frozen=True)
class QuadraticScore:
    r"""The ingredients of dot-product attention scores, :math:`s_{ij} = q_i \cdot k_j / \sqrt C`,
    for values v.

    Attributes:
        query: q.
        key: k.
        value: v.
    """

    query: NodesHeadsChannels
    key: SourcesHeadsChannels
    value: SourcesHeadsChannels


Score: TypeAlias = LinearScore | AdditiveScore | QuadraticScore
