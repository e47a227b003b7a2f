"""Values that were never measured, for the tests of where they go."""

import lightning as L
import torch

from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.log import MeasureLog


class Made(L.Callback):
    """Values that are made up, a row for each step."""

    def __init__(self, made, *quantities):
        self.made = torch.as_tensor(made, dtype=torch.float64)
        self.measure_log = MeasureLog(quantities)

    def setup(self, trainer, pl_module, stage):
        self.measure_log.open(range(1, self.made.shape[-1] + 1))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step <= len(self.made):
            self.measure_log.add(
                trainer, trainer.global_step - 1, self.made[trainer.global_step - 1]
            )

    def on_train_end(self, trainer, pl_module):
        self.measure_log.close(trainer)


SIGNED, POSITIVE = (
    Measure("signed", "made/signed", "c", log10=False),
    Measure("size", "made/size_log10", "s"),
)
# Steps x quantities x layers.
MIXED = [
    [[-2.0, 0.0, float("inf")], [0.0, 10.0, 1e-300]],
    [[3.0, -1e-30, 5.0], [1.0, float("nan"), 100.0]],
]
