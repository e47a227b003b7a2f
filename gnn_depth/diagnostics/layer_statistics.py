"""Statistics of a layer's states and gradients, and the measures that are computed from them.

Statistics merge over batches and processes; a measure is computed from the merged ones.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.diagnostics import measures as pure
from gnn_depth.diagnostics.moments import RowMoments, sum_of_squares
from gnn_depth.diagnostics.states import CallArguments
from gnn_depth.graph import Graph, keeps_result
from gnn_depth.measurements import NAME, MeasureValues
from gnn_depth.registry import unknown

Totalled = TypeVar("Totalled", bound=Callable[..., tuple[Any, Any]])
# Rounds of the power iteration for a limit, and the share of a vector that a layer may still move.
# It begins with the degrees, which attention with equal weights keeps on an undirected graph.
ROUNDS, MOVED, SETTLED = 200, 1e-3, 1e-12

Edges: TypeAlias = tuple[Tensor, int]  # an edge_index, and the number of nodes that messages go to


@dataclass
class Rows:
    """A layer's states, or their gradients: a row for each node, and what statistics read beside.

    Attributes:
        x: The rows.
        sources: The states of all nodes that messages come from, of other processes too.
        edges: The edges; None if they are not known.
        graph: The whole graph; None if it is not needed, or not known.
        limits: The directions to which the layer's propagation turns states, and gradients.
    """

    x: Tensor
    sources: Tensor
    edges: Edges | None = None
    graph: Graph | None = None
    limits: tuple[Tensor | None, Tensor | None] = (None, None)

    @cached_property
    def moments(self) -> RowMoments:
        """The moments of the rows, computed once."""
        return RowMoments.of(self.x)


@dataclass
class Processes:
    """The processes that train together."""

    count: int = 1
    shared: bool = False  # True if all have the same batches, not parts of them
    device: torch.device | str = "cpu"  # of what they exchange
    _agreed: dict[object, list[int]] = field(default_factory=dict)

    def gather(self, x: Tensor) -> Float[Tensor, "processes ..."]:
        """A tensor of every process, of equal shape in all."""
        everywhere = [torch.empty_like(x) for _ in range(self.count)]
        torch.distributed.all_gather(everywhere, x.contiguous())
        return torch.stack(everywhere)

    def agreed(self, what: str, sizes: Sequence[int]) -> list[int]:
        """The maximum of each size over all processes, computed once: a process may have no rows of
        a layer.

        Raises:
            ValueError: A size is above its maximum in the first measured step, or there are more or
                fewer sizes.
        """
        if what not in self._agreed:
            here = torch.tensor(sizes, device=self.device)
            self._agreed[what] = self.gather(here).amax(0).tolist()
        known = self._agreed[what]
        # Refused here, since processes that gather tensors of other sizes would wait for ever.
        if len(sizes) != len(known) or any(map(operator.gt, sizes, known)):
            raise ValueError(
                f"{what} are {list(sizes)}, and were at most {known} in the first measured step: "
                "several processes cannot compare them."
            )
        return known


class Statistic:
    """A statistic of a matrix's rows that merges over batches and processes.

    Attributes:
        needs_edges: True if it is computed from the edges, too.
        side: The one of the limits that it is computed from.
        compute: The statistic of a matrix.
        merge: The statistic of all rows of several parts; without parts, that of no rows.
        gather: The statistics of every layer over all processes, in the form that measures take.
    """

    needs_edges: bool = False
    side: int | None = None
    compute: Callable[[Rows], Any]
    merge: Callable[[list[Any], torch.device | str], Any]
    gather: Callable[[list[Any], Processes], Any]


class Moments(Statistic):
    """Row moments."""

    def compute(self, rows: Rows) -> RowMoments:
        return rows.moments

    def merge(self, parts: list[RowMoments], device: torch.device | str) -> RowMoments:
        return RowMoments.merge(parts or [RowMoments.empty(0, device)])

    def gather(self, layers: list[RowMoments], processes: Processes) -> RowMoments:
        moments = RowMoments.stack(layers)
        if processes.count > 1:
            (width,) = processes.agreed("the widest layer's channels", [moments.mean.shape[-1]])
            of_each = RowMoments(*map(processes.gather, vars(moments.widened(width)).values()))
            moments = of_each.side_by_side() if processes.shared else of_each.merged()
        # Without rows there are no values: a scale of NaN makes all of them NaN.
        return replace(moments, scale=torch.where(moments.count > 0, moments.scale, torch.nan))


@dataclass(eq=False)
class Totals(Statistic):
    """A numerator and a denominator, which are both sums over nodes.

    ``totals`` computes them from the rows, and from the edges and the number of their targets if it
    needs edges.
    """

    totals: Callable[..., tuple[Any, Any]]
    needs_edges: bool = False
    side: int | None = None

    def compute(self, rows: Rows) -> Float[Tensor, "2"]:
        both = rows.x.new_full((2,), torch.nan, dtype=torch.float64)
        edges = rows.edges if self.needs_edges else ()
        if edges is not None:
            both[0], both[1] = self.totals(rows, *edges)
        return both

    def merge(self, parts: list[Tensor], device: torch.device | str) -> Float[Tensor, "2"]:
        return torch.stack(parts or [torch.zeros(2, dtype=torch.float64, device=device)]).sum(0)

    def gather(self, layers: list[Tensor], processes: Processes) -> Float[Tensor, "layers 2"]:
        totals = torch.stack(layers)
        if processes.count > 1:
            totals = processes.gather(totals).sum(0)
        return totals


class Triangles(Statistic):
    """A triangular matrix with the same singular values."""

    def compute(self, rows: Rows) -> Tensor:
        x = rows.x
        return pure.triangle(x.flatten(0, -2) if x.ndim > 1 else x[:, None])

    def merge(self, parts: list[Tensor], device: torch.device | str) -> Tensor:
        nothing = torch.zeros(0, 0, dtype=torch.float64, device=device)
        return pure.triangle(torch.cat(parts or [nothing]))

    def gather(self, layers: list[Tensor], processes: Processes) -> list[Tensor]:
        widths = [layer.shape[1] for layer in layers]
        if processes.count > 1:
            widths = processes.agreed("channels of the layers", widths)
        found = []
        for layer, width in zip(layers, widths, strict=True):
            if not width:  # no process has rows: the rank is unknown, not zero
                layer = layer.new_full((1, 1), torch.nan)
            elif processes.count > 1:
                # Processes exchange squares: rows and columns of zeros keep singular values.
                margins = (0, width - layer.shape[1], 0, width - len(layer))
                square = nn.functional.pad(layer, margins)
                layer = pure.triangle(processes.gather(square).flatten(0, 1))
            found.append(layer)
        return found


def _energy(rows: Rows, edge_index: Tensor, count: int) -> tuple[Tensor, int]:
    return pure.total_squared_difference(rows.sources, edge_index), count


def _normalized(rows: Rows, edge_index: Tensor, count: int) -> tuple[Tensor, Tensor]:
    graph, sources = rows.graph, rows.sources
    assert graph is not None
    degree = graph.once(
        "proper_degree", lambda: pure.proper_degree(graph.edge_index, graph.num_nodes)
    )
    degree = graph.fetch(degree)[: len(sources)]
    return pure.total_normalized(sources, edge_index, degree), sum_of_squares(rows.x[:count])


def _distance(rows: Rows, edge_index: Tensor, _: int) -> tuple[Tensor, Tensor]:
    return pure.total_average_distance(rows.sources, edge_index)


def _from_limit(side: int, rows: Rows) -> tuple[Any, Any]:
    graph, direction, x = rows.graph, rows.limits[side], rows.x
    if graph is None or direction is None:
        return torch.nan, torch.nan
    # Of layers like GCN it is the same in every layer and step.
    last: dict[str, Any] = graph.once(("direction", side, len(x)), dict)
    if not last or not torch.equal(last["direction"], direction):
        parts = pure.Directions(direction[: len(x)], components(graph)[: len(x)])
        last.update(direction=direction, parts=parts)
    square = rows.moments.total
    return last["parts"].distance(x, square), square


def _floor(side: int, rows: Rows) -> tuple[Any, Any]:
    # mu / norm is the distance from the constant, which is as far from the limit.
    return _from_limit(side, replace(rows, x=rows.x.new_ones(len(rows.x), 1)))


@keeps_result
def components(graph: Graph, connection: Literal["weak", "strong"] = "weak") -> Tensor:
    """The number of each node's connected component."""
    from scipy.sparse.csgraph import connected_components
    from torch_geometric.utils import to_scipy_sparse_matrix

    matrix = to_scipy_sparse_matrix(graph.edge_index, num_nodes=graph.num_nodes)
    _, labels = connected_components(matrix, connection=connection)
    return torch.from_numpy(labels).long().to(graph.device)


@keeps_result
def _has_one_limit(graph: Graph) -> bool:
    """True if all nodes of a connected component read, over any number of hops, from the same
    nodes.

    Where edges are directed, two groups that read from none but themselves keep two different
    values for ever.
    """
    if graph.num_sources != graph.num_nodes:
        return False
    strong = components(graph, "strong")
    source, target = strong[graph.edge_index]
    reads_others = target[source != target].unique()
    closed = strong.unique().numel() - reads_others.numel()  # type: ignore[no-untyped-call]
    return bool(closed == components(graph).unique().numel())  # type: ignore[no-untyped-call]


@torch.no_grad()
def limits_of(
    layer: Any, graph: Graph, x: Tensor, backwards: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The directions to which a layer turns states, and gradients at a state; None where it is not
    known."""
    if not hasattr(layer, "limits") or graph.is_shard:  # components may reach other processes
        return None, None
    right, left = layer.limits(graph)
    weight, reverse = graph.edge_weight, graph.reverse
    if reverse is None and not _has_one_limit(graph):
        return None, None
    is_directed = reverse is None
    if reverse is not None and weight is not None:
        is_directed = not torch.equal(weight, weight[reverse])
    if backwards and right is not None and (left is None or is_directed):
        left = None
        if len(x) == graph.num_nodes and hasattr(layer, "propagation"):
            left = _stationary(layer.propagation(x, graph))
    return right, left


def _stationary(propagation: tuple[Graph, Tensor] | None) -> Tensor | None:
    """The left eigenvector of a propagation matrix by power iteration; None if it is not found.

    Several heads count as one with the mean of their weights.
    """
    if propagation is None:
        return None
    from scipy.sparse import csr_matrix  # products take a tenth of the time that PyTorch needs

    graph, weight = propagation
    mean = weight.double().view(graph.num_edges, -1).mean(1)
    parts = [part.cpu().numpy() for part in (mean, graph.source, graph.ptr)]
    backwards = csr_matrix(tuple(parts), (graph.num_nodes, graph.num_nodes)).T.tocsr()
    found = graph.in_degree.double().cpu().numpy()
    for _ in range(ROUNDS):
        new = backwards @ found
        moved = np.abs(new - found).sum() / found.sum()
        if moved <= SETTLED:
            break
        found = (found + new) / 2  # of both, as a graph of two sides would swap them for ever
    if moved > MOVED:
        return None
    return torch.from_numpy(found).to(graph.device)


def _zeros(rows: Rows) -> tuple[Tensor, int]:
    return (rows.x == 0).sum(), rows.x.numel()


def _squares(rows: Rows) -> tuple[Tensor, int]:
    return sum_of_squares(rows.x), rows.x.numel()


MOMENTS, TRIANGLES = Moments(), Triangles()
ENERGY = Totals(_energy, needs_edges=True)
NORMALIZED = Totals(_normalized, needs_edges=True)
DISTANCE = Totals(_distance, needs_edges=True)
STATE_LIMIT, GRADIENT_LIMIT = (Totals(partial(_from_limit, side), side=side) for side in (0, 1))
FLOOR, GRADIENT_FLOOR = (Totals(partial(_floor, side), side=side) for side in (0, 1))
ZEROS, SQUARES = Totals(_zeros), Totals(_squares)


@dataclass(frozen=True)
class Measure:
    """A number for every layer: what it is called, and how it is computed.

    Attributes:
        name: Its name, and that of its file: ``gradient_norm_hidden``.
        tag: Tag of its curves: ``gradient_norm/hidden_log10``.
        unit: Label of its axis.
        compute: Gives the values of all layers from their statistics.
        statistic: The statistic of states or gradients, or of all entries of parameters' gradients.
        product: Add a curve of the product over all layers; only for logarithms.
        log10: Keep and show the logarithm to base 10; False keeps values as they are, negative ones
            too.
        reads: What it is computed from: the ``states`` that enter the layers, their ``gradients``,
            the gradients of the layers' ``parameters``, or the ``updates`` of these. None for
            measures that a callback computes by itself.
        between: True if it compares each layer with the next, and so has no value for the last.
        around_zero: Zero separates two kinds of values, as the logarithm of a factor does, or a
            balance: pictures show it white, between blue and red.
        shown: Loggers show it; others have a file only.
    """

    name: str
    tag: str
    unit: str
    compute: Callable[[Any], Tensor] | None = None
    statistic: Statistic = MOMENTS
    product: bool = False
    log10: bool = True
    reads: Literal["states", "gradients", "parameters", "updates"] | None = None
    between: bool = False
    around_zero: bool = False
    shown: bool = True

    def values_in(self, steps: np.ndarray, values: np.ndarray, layers: np.ndarray) -> MeasureValues:
        """Its values in some steps and layers, as files and pictures take them: logarithms, where
        these are shown, and no last layer if it compares each layer with the next."""
        count = len(layers) - self.between
        values = values[:, :count]
        if self.log10:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log10(values)
        return MeasureValues(
            self.name, steps, values, self.unit, self.log10, layers[:count], self.around_zero
        )


def _ratio(totals: Float[Tensor, "layers 2"]) -> Float[Tensor, "layers"]:
    return totals[:, 0] / totals[:, 1]


def _root_ratio(totals: Float[Tensor, "layers 2"]) -> Float[Tensor, "layers"]:
    return _ratio(totals).sqrt()


def _root(totals: Float[Tensor, "layers 2"]) -> Float[Tensor, "layers"]:
    # Without entries, as of a layer without gradients, it is unknown, not zero.
    return (totals[:, 0] / (totals[:, 1] > 0)).sqrt()


def _each(of: Callable[[Tensor], Tensor], layers: Sequence[Tensor]) -> Float[Tensor, "layers"]:
    return torch.stack(list(map(of, layers)))


_effective_rank = partial(_each, pure.effective_rank)
_numerical_rank = partial(_each, pure.numerical_rank)


# As factors: a log takes the logarithms of all measures alike.
def _growth(moments: RowMoments) -> Float[Tensor, "pairs"]:
    return 10 ** pure.log10_growth(pure.log10_similarity(moments))


def _expansion(moments: RowMoments) -> Float[Tensor, "pairs"]:
    log10_mu = pure.log10_similarity(moments)
    # The last layer that has rows, found without waiting for the device.
    places = torch.arange(1, len(log10_mu) + 1, device=log10_mu.device)
    last = log10_mu.index_select(0, ((moments.count > 0) * places).argmax(keepdim=True))
    return 10 ** (log10_mu[:-1] - last)


def _mean(moments: RowMoments) -> Float[Tensor, "layers"]:
    return moments.scale * moments.mean[:, 0]


def _deviation(moments: RowMoments) -> Float[Tensor, "layers"]:
    return moments.scale * (moments.centred / moments.count).sqrt()


# The table below is read by its rows: short names for what its rows have in common.
_state, _gradient = partial(Measure, reads="states"), partial(Measure, reads="gradients")
_parameter = partial(Measure, reads="parameters")
_rank = partial(Measure, log10=False, statistic=TRIANGLES)

_ALL = (
    _state("representation_norm", "representation_norm/log10", "||X||", pure.norm),
    _state(
        "representation_similarity", "representation_similarity/mu_log10", "µ(X)", pure.similarity
    ),
    _state(
        "representation_similarity_relative",
        "representation_similarity/relative_log10",
        "µ(X) / ||X||",
        pure.relative_similarity,
    ),
    _state("dirichlet_energy", "dirichlet_energy/log10", "Dirichlet energy", _ratio, ENERGY),
    _state("mean_average_distance", "mean_average_distance/log10", "MAD", _ratio, DISTANCE),
    _state(
        "energy_normalized",
        "dirichlet_energy/normalized_log10",
        "normalized energy",
        _ratio,
        NORMALIZED,
    ),
    _state(
        "projection",
        "projection/states_log10",
        "distance of X from its limit / ||X||",
        _root_ratio,
        STATE_LIMIT,
    ),
    _rank("effective_rank", "rank/effective", "effective rank", _effective_rank, reads="states"),
    _rank("numerical_rank", "rank/numerical", "numerical rank", _numerical_rank, reads="states"),
    _state("zero_activations", "zero_activations/share", "zeros in X", _ratio, ZEROS, log10=False),
    _gradient("gradient_norm_hidden", "gradient_norm/hidden_log10", "||dLoss/dX||", pure.norm),
    _gradient("gradient_similarity", "gradient_similarity/mu_log10", "µ(G)", pure.similarity),
    _gradient(
        "gradient_similarity_relative",
        "gradient_similarity/relative_log10",
        "µ(G) / ||G||",
        pure.relative_similarity,
    ),
    _gradient(
        "gradient_growth",
        "gradient_expansion/growth_log10",
        "µ(G^l) / µ(G^(l+1))",
        _growth,
        product=True,
        between=True,
        around_zero=True,
    ),
    _gradient(
        "gradient_expansion",
        "gradient_expansion/total_log10",
        "µ(G^l) / µ(G^L)",
        _expansion,
        between=True,
        around_zero=True,
    ),
    _gradient(
        "gradient_projection",
        "projection/gradients_log10",
        "distance of G from its limit / ||G||",
        _root_ratio,
        GRADIENT_LIMIT,
    ),
    _rank(
        "gradient_effective_rank",
        "rank/gradient_effective",
        "effective rank of G",
        _effective_rank,
        reads="gradients",
    ),
    _rank(
        "gradient_numerical_rank",
        "rank/gradient_numerical",
        "numerical rank of G",
        _numerical_rank,
        reads="gradients",
    ),
    _parameter(
        "gradient_norm_parameters", "gradient_norm/parameters_log10", "||dLoss/dW||", _root, SQUARES
    ),
    _parameter(
        "gradient_mean",
        "gradient_entries/mean",
        "mean of dLoss/dW",
        _mean,
        log10=False,
        around_zero=True,
    ),
    _parameter("gradient_std", "gradient_entries/std_log10", "deviation of dLoss/dW", _deviation),
    _parameter(
        "gradient_sparsity",
        "gradient_entries/zeros",
        "zeros in dLoss/dW",
        _ratio,
        ZEROS,
        log10=False,
    ),
    Measure(
        "update_ratio", "update_ratio/log10", "||update|| / ||W||", torch.stack, reads="updates"
    ),
)

#: Every measure, by name; :func:`add_measure` adds others.
MEASURES = {measure.name: measure for measure in _ALL}

_floor_of = partial(Measure, tag="", unit="", log10=False, compute=_root_ratio)
#: The smallest mu / norm of smoothed states, and of smoothed gradients: for the probe alone.
FLOORS = (
    _floor_of("similarity_floor", reads="states", statistic=FLOOR),
    _floor_of("gradient_similarity_floor", reads="gradients", statistic=GRADIENT_FLOOR),
)


def add_measure(
    name: str,
    unit: str,
    reads: Literal["states", "gradients"] = "states",
    log10: bool = False,
    edges: bool = False,
) -> Callable[[Totalled], Totalled]:
    """Decorator: make a measure of a function, which callbacks and ``watch`` then know by name.

    The function gets the states that enter a layer, a row for each node, before dropout. It returns
    a numerator and a denominator, both sums over the rows. They are added up over batches and
    processes, and the measure is their ratio, as a mean is.

    Args:
        name: Its name, and that of its file.
        unit: Label of its axis.
        reads: What the function gets: the states, or their gradients. Then the ratio must not
            depend on the gradients' scale, as it includes that of mixed precision.
        log10: Keep and show the logarithm to base 10.
        edges: Also give the function the ``edge_index`` that the layer is called with; not of
            gradients.

    Raises:
        ValueError: A built-in measure has this name, it cannot be that of a file, or gradients are
            asked for with edges.
    """
    if MEASURES.get(name) in _ALL or not NAME.fullmatch(name) or (edges and reads == "gradients"):
        raise ValueError(
            f"measure {name!r}: choose another name than a built-in one, of letters, digits, '_', "
            "'-' and '.'; edges go with states."
        )

    def add(function: Totalled) -> Totalled:
        def totals(rows: Rows, *found: Any) -> tuple[Tensor, Tensor | int]:
            if not edges:
                return function(rows.x)
            return function(rows.sources, found[0])

        tag = f"{name}/log10" if log10 else f"{name}/value"
        statistic = Totals(totals, needs_edges=edges)
        MEASURES[name] = Measure(name, tag, unit, _ratio, statistic, log10=log10, reads=reads)
        return function

    return add


def measures_called(names: Sequence[str]) -> list[Measure]:
    """The measures of these names.

    Raises:
        ValueError: A name is unknown, or one name was given instead of several.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ValueError(
            f"measures must be a list of names such as ['effective_rank'], not {names!r}."
        )
    for name in names:
        if name not in MEASURES:
            raise ValueError(unknown("measure", name, MEASURES))
    return [MEASURES[name] for name in dict.fromkeys(names)]


def update_ratio(module: nn.Module, before: Sequence[Tensor]) -> Float[Tensor, ""]:
    """The norm of the change of a module's parameters, divided by their norm before it; NaN if it
    has none."""
    if not before:
        return torch.full((), torch.nan, dtype=torch.float64)
    # Of all parameters together: a bias that began at zero would have an infinite ratio.
    parts = []
    for parameter, old in zip(module.parameters(), before, strict=True):
        change = sum_of_squares(parameter.detach() - old)
        parts.append(torch.stack([change, sum_of_squares(old)]))
    change, size = torch.stack(parts).sum(0)
    return (change / size).sqrt()


def of_parameter_gradients(module: nn.Module, statistic: Statistic) -> Any:
    """A statistic of the gradients of all parameters of a module, their entries as rows of one
    column."""
    device = next(module.parameters(), torch.empty(0)).device
    parts = []
    for parameter in module.parameters():
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.is_sparse:  # entries that are not stored are zero, and many
            gradient = gradient.coalesce().values()
        if gradient.is_complex():  # its real and imaginary parts are entries
            gradient = torch.view_as_real(gradient)
        if statistic is MOMENTS:
            gradient = gradient.flatten()
        parts.append(statistic.compute(Rows(gradient.detach(), gradient)))
    return statistic.merge(parts, device)


def edges_of(
    x: Tensor, arguments: CallArguments, given: Tensor | Graph | None = None
) -> Edges | None:
    """The given edges, or those that a layer was called with; None if none fit its rows."""
    items: list[Any] = arguments.others
    if given is not None:
        items = [given]
    elif arguments.has_several_states:  # edges from sources to targets, which are other rows
        return None
    if x.ndim != 2:
        return None
    edges: Tensor | None
    for item in items:
        if isinstance(item, Graph):
            # A process that has a part of a graph reads rows of nodes that are not its own.
            edges, sources, targets = item.edge_index, item.num_sources, item.num_nodes
        else:
            edges = _edges(item)
            if edges is None:
                continue
            sources, targets = 0, len(x)
            if edges.numel():
                sources = int(edges.max()) + 1
        if sources <= len(x):  # else it is an index of other things, such as of pairs to classify
            return edges, targets
    return None


def _edges(item: Any) -> Tensor | None:
    """An ``edge_index``, or that of a sparse adjacency matrix whose rows are targets."""
    if hasattr(item, "sparse_sizes"):  # torch_sparse.SparseTensor
        row, column, _ = item.coo()
        return torch.stack([column, row])
    if not isinstance(item, Tensor):
        return None
    if item.layout is not torch.strided:
        return item.to_sparse_coo().coalesce().indices().flip(0)  # type: ignore[no-untyped-call]
    if item.dtype == torch.long and item.ndim == 2 and len(item) == 2:
        return item
    return None
