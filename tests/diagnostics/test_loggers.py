import re

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gnn_depth.diagnostics import MEASURES, GradientNorms, loggers
from gnn_depth.diagnostics.layer_statistics import Measure, measures_called
from tests.diagnostics.made import POSITIVE, SIGNED, Made
from tests.training.conftest import scalars

FIVE = ("first", "middle", "last", "min", "max")


def pictures(folder):
    events = EventAccumulator(str(folder), size_guidance={"images": 0}).Reload()
    return {tag: events.Images(tag) for tag in events.Tags()["images"]}


@pytest.fixture
def layouts(board, monkeypatch):
    """The layouts that TensorBoard is given: charts by their sections."""
    seen = []
    monkeypatch.setattr(board.experiment, "add_custom_scalars", seen.append)
    return seen


def test_every_measure_has_a_heat_map_at_its_last_step(measure, board, tmp_path):
    measure(logger=board, max_epochs=3)
    found = pictures(tmp_path / "run")
    assert {tag: [picture.step for picture in shown] for tag, shown in found.items()} == {
        "~heat_map/gradient_norm/hidden_log10": [2],
        "~heat_map_more/gradient_norm/parameters_log10": [2],
    }
    assert all(shown[0].encoded_image_string.startswith(b"\x89PNG") for shown in found.values())


def test_a_chart_has_five_curves_of_its_measure_and_no_others(fit, board, tmp_path, layouts):
    product = Measure("size", "made/size_log10", "s", product=True)
    made = Made(np.ones((2, 2, 3)), SIGNED, product)
    fit(made, GradientNorms("rounds.*"), logger=board, max_epochs=2)
    tags = list(scalars(tmp_path / "run"))
    shown = {
        f"{section}/{title}": [tag for tag in tags if re.match("|".join(expressions), tag)]
        for section, charts in layouts[-1].items()
        for title, (_, expressions) in charts.items()
    }
    assert (len(shown), shown["training/loss"]) == (7, ["loss"])
    assert shown["more measures/log₁₀ s: product of all layers, without skips"] == [
        "made/size_log10/product"
    ]
    for title, tag in (
        (f"more measures/{SIGNED.unit}", "made/signed"),
        ("more measures/log₁₀ s", "made/size_log10"),
        ("layers/log₁₀ ||dLoss/dX||", "gradient_norm/hidden_log10"),
    ):
        curves = shown[f"{title}: first, middle, last layer, min, max"]
        assert curves == [f"{tag}/{curve}" for curve in FIVE]


def test_tensorboard_shows_at_most_six_measures_first():
    chosen = loggers.shown_first(MEASURES.values())
    assert len(chosen) == 5  # and balance, of a callback of its own
    assert "projection" in chosen
    names = ["representation_similarity", "dirichlet_energy"]
    assert loggers.shown_first(measures_called(names)) == {names[0]}


def test_a_measure_that_most_layers_lack_is_a_line_of_text(fit, board, tmp_path, layouts):
    made = np.full((2, 2, 4), np.nan)
    made[:, 0, 0] = 1.0  # one layer of four
    made[:, 1, 1:3] = 1.0  # half of them
    fit(Made(made, SIGNED, POSITIVE), logger=board, max_epochs=2)
    assert list(pictures(tmp_path / "run")) == ["~heat_map_more/made/size_log10"]
    events = EventAccumulator(str(tmp_path / "run")).Reload()
    (text,) = events.Tensors("no_picture/made/signed/text_summary")
    assert text.tensor_proto.string_val == [
        b"signed (c) has no picture: 1 of 4 layers have values."
    ]
    assert {tag.rpartition("/")[0] for tag in scalars(tmp_path / "run", "made/")} == {
        "made/size_log10"
    }
    assert len(layouts[-1]["more measures"]) == 1
