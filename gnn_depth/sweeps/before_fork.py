"""The first import of the server that processes are forked from: PyTorch Geometric, without CUDA.

CUDA that was started before a fork cannot be used after it. PyTorch Geometric asks for PyTorch's
configuration when it is imported, and a PyTorch for GPUs starts CUDA to answer.
"""

import torch


def _configuration() -> str:
    """The one entry of the configuration that PyTorch Geometric reads."""
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return "USE_MKL=ON"
    return "USE_MKL=OFF"


_show = torch.__config__.show
torch.__config__.show = _configuration
try:
    import torch_geometric  # noqa: F401
finally:
    torch.__config__.show = _show
