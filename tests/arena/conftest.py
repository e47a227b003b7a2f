"""A tiny arena, and records that are made up."""

import pytest

from gnn_depth.arena import pictures
from gnn_depth.arena.definition import Arena, ArenaRemedy, DataSet, Round, Setting

TINY = {
    "class_path": "SyntheticCitation",
    "init_args": {
        "num_nodes": 40,
        "num_edges": 80,
        "num_features": 12,
        "num_classes": 2,
        "num_train_per_class": 6,
        "num_val": 10,
        "num_test": 14,
    },
}


@pytest.fixture
def tiny():
    """Two remedies, one set, two depths, two settings; trainings of a few epochs."""
    settings = (Setting(0.01, 0.0, 0.0), Setting(0.02, 0.5, 5e-4))
    return Arena(
        remedies={"plain": ArenaRemedy(), "residual": ArenaRemedy({"skip": "residual"})},
        sets={"tiny": DataSet(TINY, ("init_args", "seed"))},
        small={"tiny_too": DataSet(TINY, ("init_args", "seed"))},
        depths=(1, 2),
        deepest=3,
        deepest_sets=("tiny",),
        reference=2,
        width=4,
        settings=settings,
        tuning=(Round(2, 2), Round(1, 3)),
        epochs=6,
        patience=2,
        every=1,
        portions=(1, 2),
        small_depths=(3,),
        small_width=4,
        small_epochs=3,
        small_settings=settings[:1],
        left_out={},
    )


@pytest.fixture
def no_pictures(monkeypatch):
    """Files without content in place of pictures."""
    monkeypatch.setattr(pictures, "_save", lambda figure, path: path.touch())
