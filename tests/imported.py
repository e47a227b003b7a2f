"""Imports all modules of the package, as the server of processes does: see tests.processes."""

import importlib
import os
import pkgutil
import signal
import sys
import threading
import warnings
from typing import Any

# What libraries change in the process is done first.
import argcomplete  # noqa: F401
import lightning.pytorch.cli  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pandas  # noqa: F401
import pytest  # noqa: F401
import torch._inductor.compile_fx
import torch.utils.tensorboard  # noqa: F401
import torch_geometric  # noqa: F401
import torchmetrics  # noqa: F401
import tqdm  # noqa: F401


def state() -> dict[str, Any]:
    """All that an import could change in the process."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {
        "environment": dict(os.environ),
        "threading.excepthook": threading.excepthook,
        "sys.excepthook": sys.excepthook,
        "signal handlers": handlers,
        "warnings.filters": warnings.filters[:],
        "warnings.showwarning": warnings.showwarning,
    }


before = state()
import gnn_depth  # noqa: E402

#: The measures, known without an import of their own.
MEASURES = tuple(gnn_depth.diagnostics.MEASURES)
for module in pkgutil.walk_packages(gnn_depth.__path__, "gnn_depth."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
#: What importing the package has changed.
CHANGED = {name: new for name, new in state().items() if new != before[name]}
