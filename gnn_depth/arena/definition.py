"""The remedies, data sets and depths of the arena, and the budget that each of them gets.

To add a remedy, add a line to :data:`REMEDIES`: only its own trainings are missing then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gnn_depth.data.draws import Draws
from gnn_depth.registry import unknown


@dataclass(frozen=True)
class ArenaRemedy:
    """The options that a remedy sets, besides the tuned ones.

    Attributes:
        model: Options of the model; its layer is a GCN where none is named.
        transforms: Transforms of the data, one after another.
        callbacks: Callbacks of the trainer.
        code: Digest of the code of its part; empty for parts of this package.
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    transforms: tuple[Mapping[str, Any], ...] = ()
    callbacks: tuple[Mapping[str, Any], ...] = ()
    code: str = ""

    def options(self) -> dict[str, Any]:
        """The options as a config writes them, without empty sections."""
        sections = {
            "model": dict(self.model),
            "data": {"transforms": list(self.transforms)} if self.transforms else {},
            "trainer": {"callbacks": list(self.callbacks)} if self.callbacks else {},
        }
        return {name: section for name, section in sections.items() if section}


# Options that make a remedy what it is are written out, defaults too: records of other options are
# then those of another definition.
REMEDIES = {
    "plain": ArenaRemedy(),
    "residual": ArenaRemedy({"skip": "residual"}),
    "batch": ArenaRemedy({"norm": "batch"}),
    "residual_batch": ArenaRemedy({"skip": "residual", "norm": "batch"}),
    "residual_layer": ArenaRemedy({"skip": "residual", "norm": "layer"}),
    "linear": ArenaRemedy({"layer": {"name": "gcn", "root_weight": True}}),
    "linear_batch": ArenaRemedy({"layer": {"name": "gcn", "root_weight": True}, "norm": "batch"}),
    "initial_residual": ArenaRemedy({"skip": "initial_residual"}),
    "adaptive_initial": ArenaRemedy({"skip": "adaptive_initial"}),
    "gcnii": ArenaRemedy({"layer": "gcnii", "first_activation": True, "last_activation": True}),
    "rezero": ArenaRemedy({"skip": "rezero"}),
    "gated": ArenaRemedy({"skip": "gated"}),
    "gradient_gating": ArenaRemedy({"skip": "gradient_gating"}),
    "graphcon": ArenaRemedy({"skip": {"name": "graphcon", "step_size": 0.5}}),
    "ordered": ArenaRemedy({"layer": "mean", "activation": "identity", "skip": "ordered"}),
    "gnnplus": ArenaRemedy({"skip": {"name": "feed_forward", "norm": "batch"}, "norm": "batch"}),
    "antisymmetric": ArenaRemedy(
        {"layer": "antisymmetric", "activation": "identity", "share_layers": True}
    ),
    "swan": ArenaRemedy({"layer": "swan", "activation": "identity", "share_layers": True}),
    "reaction": ArenaRemedy({"layer": "reaction", "activation": "identity", "share_layers": True}),
    "layer": ArenaRemedy({"norm": "layer"}),
    "pair": ArenaRemedy({"norm": "pair"}),
    "node": ArenaRemedy({"norm": "node"}),
    "spectral": ArenaRemedy({"norm": {"name": "spectral", "mode": "exact", "bound": 1.0}}),
    "orthogonal": ArenaRemedy({"init": {"name": "orthogonal", "looks_linear": True}}),
    "virgo": ArenaRemedy({"init": "virgo"}),
    "critical": ArenaRemedy({"init": "critical", "activation": "tanh"}),
    "drop_edge": ArenaRemedy({"graph_dropout": "drop_edge"}),
    "drop_sens": ArenaRemedy({"graph_dropout": {"name": "drop_sens", "p": 0.1}}),
    "drop_message": ArenaRemedy({"graph_dropout": "drop_message"}),
    "acm": ArenaRemedy({"layer": "acm"}),
    "contra": ArenaRemedy({"norm": "contra"}),
    "unitary": ArenaRemedy({"layer": {"name": "unitary", "terms": 8}, "activation": "group_sort"}),
    "rebalance": ArenaRemedy(callbacks=({"class_path": "Rebalance"},)),
    # Controls: a step size that shrinks with depth, and other graphs for the same model.
    "depth_lr": ArenaRemedy({"depth_lr": 1.5}),
    "half_hop": ArenaRemedy(transforms=({"name": "half_hop", "p": 0.5},)),
    "fosr": ArenaRemedy(transforms=({"name": "fosr", "num_edges": 50},)),
    "sdrf": ArenaRemedy(transforms=({"name": "sdrf", "steps": 50},)),
    "borf": ArenaRemedy(transforms=({"name": "borf", "rounds": 3},)),
}


@dataclass(frozen=True)
class DataSet:
    """A data set, with ten splits.

    Attributes:
        data: The section ``data`` of a config, without the split.
        split: The options that number the split, below those of ``data``: the keys on the way to
            it.
        metric: The metric of the test set that is compared, as in ``acc``.
        is_redrawn: True if each split is data of its own, so that trainings on two of them share
            nothing.
    """

    data: Mapping[str, Any]
    split: tuple[str, ...]
    metric: str = "acc"
    is_redrawn: bool = False

    def with_split(
        self, split: int, transforms: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The section ``data`` with a split, and with transforms of its graph."""
        section = _with(self.data, self.split, split)
        if transforms:  # only then: the section is part of the identity of every record
            # Beside the number of the split: a set that changes another one has no transforms.
            section = _with(section, (*self.split[:-1], "transforms"), list(transforms))
        return section


def _with(options: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The options with a value at a path of keys."""
    if len(path) == 1:
        return {**options, path[0]: value}
    return {**options, path[0]: _with(options.get(path[0]) or {}, path[1:], value)}


def _set(class_path: str, numbered: str, **options: Any) -> dict[str, Any]:
    """The data of a :class:`DataSet`, and the option that numbers its splits."""
    return {
        "data": {"class_path": class_path, "init_args": options},
        "split": ("init_args", numbered),
    }


_COLD_CORA = {
    "class_path": "MissingFeatures",
    "init_args": {
        "rate": 1.0,
        # Not 20 training nodes a class: the corrected test finds hardly anything on such splits.
        "source": {
            "class_path": "Planetoid",
            "init_args": {"name": "Cora", "split": "geom-gcn"},
        },
    },
}
#: The sets of the arena, in the order in which they are trained: cheap ones first.
SETS = {
    "cora": DataSet(**_set("Planetoid", "split_index", name="Cora", split="geom-gcn")),
    "transfer": DataSet(
        **_set("GraphTransfer", "seed", shape="line", distance=5, num_graphs=1000),
        is_redrawn=True,
    ),
    "transfer_crossed": DataSet(
        **_set("GraphTransfer", "seed", shape="crossed_ring", distance=5, num_graphs=1000),
        is_redrawn=True,
    ),
    "eccentricity": DataSet(
        **_set("KHopEccentricity", "seed", num_nodes=1000, train_fraction=0.5, val_fraction=0.25),
        is_redrawn=True,
    ),
    "cora_cold": DataSet(_COLD_CORA, ("init_args", "source", "init_args", "split_index")),
    "squirrel_filtered": DataSet(**_set("HeterophilousGraphs", "split", name="squirrel_filtered")),
    "minesweeper": DataSet(
        **_set("HeterophilousGraphs", "split", name="minesweeper"), metric="auroc"
    ),
    "photo": DataSet(**_set("Amazon", "split_index", name="Photo")),
}
#: Small sets for records of many settings, from which failure is to be predicted.
SMALL_SETS = {
    "citation_small": DataSet(
        **_set(
            "SyntheticCitation",
            "seed",
            num_nodes=500,
            num_edges=1000,
            num_features=100,
            num_val=150,
            num_test=200,
        ),
        is_redrawn=True,
    ),
    "sbm_small": DataSet(
        **_set("ContextualSBM", "seed", num_nodes=400, num_features=50, phi=-0.6),
        is_redrawn=True,
    ),
    "mines_small": DataSet(
        **_set("Minesweeper", "seed", rows=22, columns=22), metric="auroc", is_redrawn=True
    ),
    "transfer_small": DataSet(
        **_set("GraphTransfer", "seed", shape="line", distance=5, num_classes=3, num_graphs=200),
        is_redrawn=True,
    ),
    "eccentricity_small": DataSet(
        **_set(
            "KHopEccentricity",
            "seed",
            num_nodes=400,
            hops=8,
            num_classes=4,
            train_fraction=0.5,
            val_fraction=0.25,
        ),
        is_redrawn=True,
    ),
}
#: Why a remedy is not trained on a set, as a clause of a sentence of the page.
MEMORY = "each layer needs memory and time for nodes x nodes"
TIME = "the transform takes half a minute to minutes on every split"
ONE_GRAPH = "the method is defined for one graph, and this set has many"
NEW_NODES = "the method adds nodes, and the set hides features of those that were there"
# They would solve with two layers what is made to need more.
SMALL_GRAPHS = "the added edges would join all nodes of graphs this small"
_MANY_GRAPHS = ("transfer", "transfer_crossed", "transfer_small")
_LARGE = ("cora", "cora_cold", "squirrel_filtered", "minesweeper", "photo", "eccentricity")
#: By remedy, the sets that it is not trained on, each with the reason.
LEFT_OUT: dict[str, dict[str, str]] = {
    "contra": dict.fromkeys(SETS, MEMORY),
    "half_hop": dict.fromkeys(_MANY_GRAPHS, ONE_GRAPH) | {"cora_cold": NEW_NODES},
    "fosr": dict.fromkeys(_MANY_GRAPHS, SMALL_GRAPHS),
    "sdrf": dict.fromkeys(_MANY_GRAPHS, SMALL_GRAPHS)
    | dict.fromkeys(("squirrel_filtered", "photo"), TIME),
    "borf": dict.fromkeys(_MANY_GRAPHS, SMALL_GRAPHS) | dict.fromkeys(_LARGE, TIME),
}


@dataclass(frozen=True)
class Setting:
    """One point of the search space, which is the same for every remedy."""

    lr: float
    dropout: float
    weight_decay: float


def drawn_settings(count: int, seed: int) -> tuple[Setting, ...]:
    """Settings drawn from the search space: learning rates log-uniform from 5e-4 to 2e-2, dropout
    0, 0.2, 0.5 or 0.7, weight decay 0, 5e-5, 5e-4 or 5e-3."""
    uniform = Draws(seed, "settings").uniform(3 * count).reshape(count, 3)
    settings = []
    for lr, dropout, decay in uniform.tolist():
        rate = 5e-4 * 40**lr
        settings.append(
            Setting(
                float(f"{rate:.3g}"),
                (0.0, 0.2, 0.5, 0.7)[int(4 * dropout)],
                (0.0, 5e-5, 5e-4, 5e-3)[int(4 * decay)],
            )
        )
    return tuple(settings)


def _only(parts: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The entries of these names, in their own order."""
    wanted = set(names)
    return {name: part for name, part in parts.items() if name in wanted}


@dataclass(frozen=True)
class Round:
    """A step of the tuning: so many settings, each trained for so many epochs."""

    settings: int
    epochs: int


@dataclass(frozen=True)
class Arena:
    """Everything that is compared, and how long it is trained.

    Attributes:
        remedies: The remedies, by name.
        sets: The sets on which remedies are tuned and compared.
        small: The sets of the small trainings.
        depths: Numbers of layers.
        deepest: A further number of layers, on some sets.
        deepest_sets: The sets on which ``deepest`` is trained.
        reference: The number of layers of the stack that deeper ones are compared with.
        width: Width of the hidden states.
        settings: The settings that are tuned over.
        tuning: The rounds of successive halving.
        epochs: The most epochs of a training.
        patience: A training ends when this many epochs brought no better validation metric.
        every: Epochs from one validation to the next.
        portions: Numbers of splits after which the next set comes: all sets get the first number,
            then all get the next.
        small_depths: Numbers of layers of the small trainings.
        small_width: Their width.
        small_epochs: Their epochs; they do not end early.
        small_settings: Their settings, of which each remedy and set gets one after another.
        left_out: Sets by remedy that are not trained, each with the reason.
    """

    remedies: Mapping[str, ArenaRemedy] = field(default_factory=lambda: dict(REMEDIES))
    sets: Mapping[str, DataSet] = field(default_factory=lambda: dict(SETS))
    small: Mapping[str, DataSet] = field(default_factory=lambda: dict(SMALL_SETS))
    depths: tuple[int, ...] = (2, 8, 32)
    deepest: int | None = 128
    deepest_sets: tuple[str, ...] = ("cora", "transfer", "transfer_crossed", "eccentricity")
    reference: int = 4
    width: int = 32
    settings: tuple[Setting, ...] = drawn_settings(8, seed=47)
    tuning: tuple[Round, ...] = (Round(8, 15), Round(4, 30), Round(2, 60))
    epochs: int = 1000
    patience: int = 50
    every: int = 5
    portions: tuple[int, ...] = (3, 10)
    small_depths: tuple[int, ...] = (8, 16, 32)
    small_width: int = 16
    small_epochs: int = 60
    small_settings: tuple[Setting, ...] = drawn_settings(4, seed=470)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: dict(LEFT_OUT))

    def data_set(self, name: str) -> DataSet:
        """A set by name, large or small."""
        return self.sets[name] if name in self.sets else self.small[name]

    def takes(self, remedy: str, name: str) -> bool:
        """True if a remedy is trained on a set."""
        return name not in self.left_out.get(remedy, {})

    def restricted(self, sets: Sequence[str] = (), remedies: Sequence[str] = ()) -> "Arena":
        """This arena with some of its sets and remedies; none stands for all.

        Raises:
            ValueError: It has none of that name.
        """
        for word in sets:
            if word not in self.sets and word not in self.small:
                raise ValueError(unknown("set", word, [*self.sets, *self.small]))
        for word in remedies:
            if word not in self.remedies:
                raise ValueError(unknown("remedy", word, self.remedies))
        chosen = sets or [*self.sets, *self.small]
        return replace(
            self,
            sets=_only(self.sets, chosen),
            small=_only(self.small, chosen),
            deepest_sets=tuple(name for name in self.deepest_sets if name in chosen),
            remedies=_only(self.remedies, remedies or self.remedies),
        )

    def with_remedies(self, more: Mapping[str, ArenaRemedy]) -> "Arena":
        """This arena with further remedies.

        Raises:
            ValueError: One has the name of another.
        """
        for name in more:
            if name in self.remedies:
                raise ValueError(
                    f"the arena has a remedy {name!r} already: register yours under another name."
                )
        return replace(self, remedies={**self.remedies, **more})
