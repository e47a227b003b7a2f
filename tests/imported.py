"""Imports all modules of the package, as the server of processes does: see tests.processes."""

import importlib
import importlib.util
import os
import pkgutil
import signal
import sys
import threading
import warnings

# What libraries change in the process is done first.
import lightning.pytorch.cli  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pandas  # noqa: F401
import pytest  # noqa: F401
import torch._inductor.compile_fx
import torch.utils.tensorboard  # noqa: F401
import torch_geometric  # noqa: F401
import torchmetrics  # noqa: F401
import tqdm  # noqa: F401


def state() -> dict[str, list]:
    """All that an import could change in the process."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {
        "environment": list(os.environ.items()),
        "hooks": [sys.excepthook, threading.excepthook, warnings.showwarning],
        "signal handlers": list(handlers.items()),
        "filters of warnings": list(warnings.filters),
    }


before = state()
import gnn_depth  # noqa: E402

#: The measures, known without an import of their own.
MEASURES = tuple(gnn_depth.diagnostics.MEASURES)
#: Those that import Triton, which comes with a PyTorch for GPUs only.
OF_GPUS = ("gnn_depth.nn.native.gpu", "gnn_depth.nn.native.gpu_programs")
HAS_TRITON = importlib.util.find_spec("triton") is not None
for module in pkgutil.walk_packages(gnn_depth.__path__, "gnn_depth."):
    is_importable = HAS_TRITON or module.name not in OF_GPUS
    if is_importable and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
#: What importing the package has changed, and what is new of it.
CHANGED = {
    name: [str(one) for one in after if one not in before[name]]
    for name, after in state().items()
    if after != before[name]
}
