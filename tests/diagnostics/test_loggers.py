import re

import numpy as np
import pytest
from lightning.pytorch.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import metadata
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from gnn_depth.diagnostics import GradientNorms, loggers
from gnn_depth.diagnostics.layer_statistics import Measure
from tests.diagnostics.made import SIGNED, Made
from tests.training.conftest import scalars

FIVE = ("first", "middle", "last", "min", "max")


def pictures(folder):
    events = EventAccumulator(str(folder), size_guidance={"images": 0}).Reload()
    return {tag: events.Images(tag) for tag in events.Tags()["images"]}


def layouts(folder):
    """The sections of every layout that was written: the titles of their charts, and what the
    charts show."""
    loaded = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    if metadata.CONFIG_SUMMARY_TAG not in loaded.Tags()["tensors"]:
        return []
    protos = [
        event.tensor_proto.string_val[0] for event in loaded.Tensors(metadata.CONFIG_SUMMARY_TAG)
    ]
    return [
        {
            part.title: {one.title: list(one.multiline.tag) for one in part.chart}
            for part in Layout.FromString(p).category
        }
        for p in protos
    ]


def test_every_measure_has_a_heat_map_at_its_last_step(measure, board, tmp_path):
    measure(logger=board, max_epochs=3)
    found = pictures(tmp_path / "run")
    assert {tag: [picture.step for picture in shown] for tag, shown in found.items()} == {
        "~heat_map/gradient_norm/hidden_log10": [2],
        "~heat_map/gradient_norm/parameters_log10": [2],
    }
    assert all(shown[0].encoded_image_string.startswith(b"\x89PNG") for shown in found.values())


def test_nothing_is_drawn_for_loggers_without_pictures(measure, tmp_path, monkeypatch):
    monkeypatch.setattr(loggers, "heat_map", lambda one: pytest.fail("a picture that nobody sees"))
    measure(logger=CSVLogger(tmp_path / "table", name="", version=""))


def test_a_chart_has_five_curves_of_its_measure_and_no_others(fit, board, tmp_path):
    product = Measure("size", "made/size_log10", "s", product=True)
    fit(
        Made(np.ones((2, 2, 3)), SIGNED, product),
        GradientNorms("rounds.*"),
        logger=board,
        max_epochs=2,
    )
    tags = list(scalars(tmp_path / "run"))
    (found,) = layouts(tmp_path / "run")
    shown = {
        f"{section}/{title}": [tag for tag in tags if re.match("|".join(expressions), tag)]
        for section, charts in found.items()
        for title, expressions in charts.items()
    }
    named = "first, middle, last layer, min, max"
    assert shown == {
        "training/accuracy": [],
        "training/loss": ["loss"],
        **{
            f"made/{unit}: {named}": [f"made/{name}/{curve}" for curve in FIVE]
            for name, unit in (("signed", SIGNED.unit), ("size_log10", "log₁₀ s"))
        },
        "made/log₁₀ s: product of all layers": ["made/size_log10/product"],
        **{
            f"gradient_norm/log₁₀ {unit}: {named}": [
                f"gradient_norm/{kind}_log10/{curve}" for curve in FIVE
            ]
            for kind, unit in (("hidden", "||dLoss/dX||"), ("parameters", "||dLoss/dW||"))
        },
    }


@pytest.mark.parametrize(
    ("tag", "chart"),
    [
        ("train/acc", "accuracy"),
        ("test/acc", "accuracy"),
        ("~test/acc", "accuracy"),
        ("val_accuracy_epoch", "accuracy"),
        ("val/loss", "loss"),
        ("train_loss_step", "loss"),
        ("lossless", None),
        ("~final/train_loss", None),
        ("gradient_norm/hidden_log10/layer_001", None),
        ("lr", None),
    ],
)
def test_accuracy_and_loss_are_found_under_the_names_that_they_have(tag, chart):
    found = [
        title for title, (_, (expression,)) in loggers.TRAINING.items() if re.match(expression, tag)
    ]
    assert found == ([chart] if chart else [])
