"""Pure functions that measure how similar the rows of a matrix are, and how this changes with
depth.

All work in float64 and without gradients. Each is NaN for a matrix with an infinite or NaN entry.
Edges are an ``edge_index`` as in PyTorch Geometric, sources and targets of shape (2, edges); an
undirected graph has both directions of each edge.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from gnn_depth.diagnostics.moments import RowMoments, sum_of_squares

LARGE = 0.1  # share of the squares from which on their difference in float32 keeps five digits
CHUNK = 1 << 16  # numbers of edges x channels at once, which fit into the cache


def similarity(x: Tensor | RowMoments) -> Float[Tensor, "*layers"]:
    r"""The similarity mu, the distance of the rows from their mean; zero if all rows are equal.

    .. math:: \mu(X) = \Big\| X - \tfrac1N 1 1^T X \Big\|_F

    Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024.

    Args:
        x: A matrix, or the moments of its rows.
    """
    moments = _moments(x)
    return moments.scale * moments.centred.sqrt()


def log10_similarity(x: Tensor | RowMoments) -> Float[Tensor, "*layers"]:
    """The logarithm of :func:`similarity`, also beyond the range of float64; -inf for zero."""
    moments = _moments(x)
    return moments.scale.log10() + moments.centred.log10() / 2


def norm(x: Tensor | RowMoments) -> Float[Tensor, "*layers"]:
    r"""The Frobenius norm :math:`\|X\|_F`."""
    moments = _moments(x)
    return moments.scale * moments.square.sqrt()


def relative_similarity(x: Tensor | RowMoments) -> Float[Tensor, "*layers"]:
    r"""The share of the norm in which the rows differ, :math:`\mu(X) / \|X\|_F`, from 0 for equal
    rows to 1.

    Smoothing lowers it; scaling the whole matrix, as when values vanish, does not change it. NaN
    for a zero matrix.
    """
    moments = _moments(x)
    return (moments.centred / moments.square).sqrt()


def log10_growth(log10_mu: Float[Tensor, "*steps layers"]) -> Float[Tensor, "*steps pairs"]:
    r"""The logarithm of the gradients' growth in similarity through each layer of the backward
    pass.

    .. math:: \log_{10} \frac{\mu(G^l)}{\mu(G^{l+1})}

    Above zero gradients expand, below they smooth out (Park & Kim 2024). NaN where both are zero.

    Args:
        log10_mu: The values of :func:`log10_similarity`, the first layer first.
    """
    return log10_mu[..., :-1] - log10_mu[..., 1:]


def dirichlet_energy(
    x: Float[Tensor, "nodes channels"], edge_index: Int[Tensor, "2 edges"]
) -> Float[Tensor, ""]:
    r"""The Dirichlet energy, the squared difference between neighbours; zero if they are equal, and
    without edges.

    .. math:: E(X) = \frac1N \sum_i \sum_{j \in N_i} \|x_i - x_j\|^2

    Rusch, Bronstein & Mishra, *A Survey on Oversmoothing in Graph Neural Networks*, 2023, who use
    its root. An edge that appears twice counts twice. Half of it, without 1/N, is the trace of
    :math:`X^T (D - A) X`.
    """
    return total_squared_difference(x, edge_index) / max(len(x), 1)


def total_squared_difference(
    x: Float[Tensor, "nodes channels"], edge_index: Int[Tensor, "2 edges"]
) -> Float[Tensor, ""]:
    """The squared difference between the ends of every edge, summed: N times the
    :func:`dirichlet_energy`."""
    x = _wide(x)
    total = x.new_zeros(())
    for source, target in _chunks(edge_index, x.shape[1]):
        apart = _apart(x, source, target).flatten()
        total += apart.dot(apart)
    return _unless_broken(total, x)


def energy_normalized(
    x: Float[Tensor, "nodes channels"], edge_index: Int[Tensor, "2 edges"]
) -> Float[Tensor, ""]:
    r"""The Dirichlet energy of rows divided by the root of their degrees, over the squared norm:
    from 0 to 2, whatever the scale of the matrix.

    .. math:: \frac{1}{2 \|X\|_F^2} \sum_i \sum_{j \in N_i}
        \Big\| \frac{x_i}{\sqrt{1 + d_i}} - \frac{x_j}{\sqrt{1 + d_j}} \Big\|^2

    Cai & Wang, *A Note on Over-Smoothing for Graph Neural Networks*, 2020. Zero if the rows are in
    proportion to :math:`\sqrt{1 + d}`, the limit of GCN's propagation. Degrees d count no
    self-loops.
    """
    total = total_normalized(x, edge_index, proper_degree(edge_index, len(x)))
    return total / sum_of_squares(_wide(x))


def total_normalized(
    x: Float[Tensor, "nodes channels"],
    edge_index: Int[Tensor, "2 edges"],
    degree: Float[Tensor, "nodes"],
) -> Float[Tensor, ""]:
    """The :func:`energy_normalized` times the squared norm, given the :func:`proper_degree`."""
    scaled = _wide(x) / (1 + degree).sqrt().unsqueeze(1)
    return total_squared_difference(scaled, edge_index) / 2


def proper_degree(edge_index: Int[Tensor, "2 edges"], nodes: int) -> Float[Tensor, "nodes"]:
    """The number of edges into each node, without self-loops."""
    source, target = edge_index
    return torch.bincount(target[source != target], minlength=nodes).double()


def projection(
    x: Float[Tensor, "nodes channels"],
    direction: Float[Tensor, "nodes"],
    component: Int[Tensor, "nodes"] | None = None,
) -> Float[Tensor, ""]:
    r"""The distance of the columns from a direction over their norm, from 0 to 1.

    .. math:: \Big\| X - \sum_c \frac{r_c r_c^T}{r_c^T r_c} X \Big\|_F \Big/ \|X\|_F

    for the parts :math:`r_c` of the direction in each connected component c. If r is the dominant
    eigenvector of a layer's propagation (constant for means and attention, :math:`\sqrt{1 + d}`
    for GCN), it falls to zero where depth smooths features; mu does so only for a constant r.

    Args:
        x: A matrix.
        direction: r.
        component: The number of each node's component; by default there is one.
    """
    if component is None:
        component = torch.zeros(len(x), dtype=torch.long, device=x.device)
    square = sum_of_squares(_wide(x))
    return (Directions(direction, component).distance(x, square) / square).sqrt()


class Directions:
    """The parts of a direction in each connected component, of length 1."""

    def __init__(self, direction: Float[Tensor, "nodes"], component: Int[Tensor, "nodes"]) -> None:
        self._component = component
        self._nodes = component.argsort(stable=True)  # those of a component beside each other
        sizes = torch.bincount(component)
        self._starts = sizes.cumsum(0) - sizes
        r = _wide(direction)
        lengths = r.new_zeros(len(sizes)).index_add_(0, component, r.square()).sqrt()
        self._unit = r / _positive(lengths).index_select(0, component)

    def distance(
        self, x: Float[Tensor, "nodes channels"], square: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        r"""The square of the numerator of the :func:`projection`, given :math:`\|X\|_F^2`."""
        # Faster, and to five digits unless little is left.
        if x.dtype == torch.float32 and x.is_cpu:
            distance = square - sum_of_squares(self._along(x.detach()))
            if distance > LARGE * square:
                return distance
        x = _wide(x)
        apart = self._along(x).index_select(0, self._component)
        # NaN for an infinite entry, as inf - inf is.
        return sum_of_squares(torch.addcmul(x, self._unit.unsqueeze(1), apart, value=-1))

    def _along(self, x: Tensor) -> Tensor:
        """The coefficient of each part, shape (components, channels)."""
        weights = self._unit.index_select(0, self._nodes).to(x.dtype)
        return embedding_bag(self._nodes, x, self._starts, mode="sum", per_sample_weights=weights)


def mean_average_distance(
    x: Float[Tensor, "nodes channels"], edge_index: Int[Tensor, "2 pairs"]
) -> Float[Tensor, ""]:
    r"""MAD: the mean cosine distance of a node to its neighbours, averaged over all nodes with
    neighbours.

    .. math::
        \frac{1}{|V'|} \sum_{i \in V'} \frac{1}{|N_i|} \sum_{j \in N_i}
        \Big( 1 - \cos(x_i, x_j) \Big), \quad
        V' = \{i : N_i \neq \emptyset\}

    Chen, Lin, Li, Li, Zhou & Sun, *Measuring and Relieving the Over-smoothing Problem for Graph
    Neural Networks from the Topological View*, AAAI 2020, who leave out pairs at a distance of
    exactly zero. Here these pairs count: otherwise rounding would decide which are left out, and no
    pair would be left if all rows are equal. Rusch, Bronstein & Mishra 2023 sum over the
    neighbours, and average over all nodes. A zero row has distance 1 from other rows, and 0 from
    other zero rows.

    Args:
        x: Features of the nodes, one row each.
        edge_index: Pairs (j, i) with j in :math:`N_i`: a neighbour of node i or, for the paper's
            MADGap, a remote node. Pairs of a node with itself are left out; without other pairs MAD
            is NaN.
    """
    total, count = total_average_distance(x, edge_index)
    return total / count


def total_average_distance(
    x: Float[Tensor, "nodes channels"], edge_index: Int[Tensor, "2 pairs"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The numerator and the denominator of the :func:`mean_average_distance`."""
    directions, directed = _directions(x)
    proper = edge_index[:, edge_index[0] != edge_index[1]]
    pairs = directions.new_zeros(2, len(x))
    pairs[0].index_add_(0, proper[1], torch.ones_like(proper[1], dtype=torch.float64))
    for from_, to in _chunks(proper, directions.shape[1]):
        # 1 - cos = ||a - b||^2 / 2 of directions a and b; as a difference from 1 it would be noise
        # for parallel rows.
        distances = _apart(directions, from_, to).square_().sum(1) / 2
        alone = directed[from_] != directed[to]  # the cosine with a row of zeros is 0
        pairs[1].index_add_(0, to, torch.where(alone, 1.0, distances))
    # Nodes without neighbours have no average, and do not count.
    count, total = pairs
    averages = total / count.clamp_min(1)
    return _unless_broken(averages.sum(), x), (count > 0).sum().double()


def effective_rank(x: Float[Tensor, "rows channels"]) -> Float[Tensor, ""]:
    r"""The effective rank: the number of directions that the rows fill; equals the rank if singular
    values are equal.

    .. math:: \exp \Big( -\sum_k p_k \log p_k \Big), \quad p_k = \sigma_k \Big/ \sum_j \sigma_j

    Roy & Vetterli, *The effective rank: a measure of effective dimensionality*, EUSIPCO 2007; zero
    for zeros.
    """
    values = _singular_values(x)
    shares = values / _positive(values.sum())
    return torch.where(values.any(), torch.special.entr(shares).sum().exp(), 0.0)


def numerical_rank(x: Float[Tensor, "rows channels"]) -> Float[Tensor, ""]:
    r"""The numerical rank :math:`\|X\|_F^2 / \|X\|_2^2`, from 1 to the rank; small singular values
    hardly count.

    Rudelson & Vershynin, *Sampling from large matrices: an approach through geometric functional
    analysis*, J. ACM 2007; zero for zeros.
    """
    values = _singular_values(x)
    if not len(values):  # amax refuses an empty tensor
        return values.sum()
    return (values / _positive(values.amax())).square().sum()


def _singular_values(x: Tensor) -> Float[Tensor, "values"]:
    """The singular values, up to a common factor; NaN if an entry is not finite."""
    # The decomposition refuses values that are not finite.
    wide = _wide(x).nan_to_num(0.0, 0.0, 0.0)
    if wide.numel():
        # Other libraries than LAPACK may not scale by themselves.
        wide = wide / _positive(wide.abs().amax())
    # Those of the triangle are the same, and it is much smaller than a matrix of many rows.
    return _unless_broken(torch.linalg.svdvals(triangle(wide)), x)


def triangle(x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rank channels"]:
    """A matrix with the same singular values and at most as many rows as channels: the factor R of
    a QR decomposition.

    Stacking the triangles of several matrices and decomposing again gives the triangle of the
    stacked matrices.
    """
    wide = _wide(x)
    if len(wide) <= wide.shape[1]:
        return wide
    return torch.linalg.qr(wide, mode="r").R


def _moments(x: Tensor | RowMoments) -> RowMoments:
    return RowMoments.of(x) if isinstance(x, Tensor) else x


def _wide(x: Tensor) -> Float[Tensor, "nodes channels"]:
    return x.detach().double()


def _positive(x: Tensor) -> Tensor:
    """The divisor, with zeros replaced by 1."""
    return torch.where(x > 0, x, 1.0)


def _unless_broken(value: Tensor, x: Tensor) -> Float[Tensor, ""]:
    return torch.where(x.isfinite().all(), value, torch.nan)


def _directions(x: Tensor) -> tuple[Float[Tensor, "nodes channels"], Bool[Tensor, "nodes"]]:
    """The rows divided by their norms (rows of zeros stay zero), and a mask of the rows that are
    not zero."""
    x = _wide(x)
    if x.shape[1]:
        # So that the squares of its entries neither vanish nor overflow.
        x = x / _positive(x.abs().amax(1, keepdim=True))
    norms = x.norm(dim=1, keepdim=True)
    return x / _positive(norms), norms[:, 0] > 0


def _apart(x: Tensor, source: Tensor, target: Tensor) -> Float[Tensor, "pairs channels"]:
    return x.index_select(0, source).sub_(x.index_select(0, target))


def _chunks(edge_index: Tensor, channels: int) -> tuple[Tensor, ...]:
    return torch.split(edge_index, max(CHUNK // max(channels, 1), 1), 1)
