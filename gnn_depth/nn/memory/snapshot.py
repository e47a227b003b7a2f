"""RNG snapshots: the state that a computation depends on, kept so that the backward pass can repeat it exactly."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Snapshot:
    """The current random number generators, buffers and autocast mode; a call restores them temporarily.

    It holds the buffers of modules in training mode, which batch norms and power iterations change. After the call the
    previous state is restored.

    Args:
        modules: The modules that the computation calls, including submodules.
        device: Its device.
        like: An earlier snapshot; its copy of the random states is shared if no random numbers have been drawn since.
    """

    def __init__(self, modules: Iterable[nn.Module], device: torch.device, like: "Snapshot | None" = None) -> None:
        self.device = device
        self._buffers = [
            (module, name, buffer.clone())
            for module in modules
            if module.training and module._buffers
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        drawn = [torch.get_rng_state(), *([] if self._on_cpu else [self._of_device().get_rng_state(device)])]
        same = like is not None and all(map(torch.equal, drawn, like._random))
        self._random: list[Tensor] = like._random if same and like is not None else drawn
        kind = device.type
        self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with ExitStack() as stack:
            devices = [] if self._on_cpu else [self.device]
            stack.enter_context(torch.random.fork_rng(devices, device_type=self._kind))
            torch.set_rng_state(self._random[0])
            if not self._on_cpu:
                self._of_device().set_rng_state(self._random[1], self.device)
            enabled, dtype = self._autocast
            stack.enter_context(torch.autocast(self.device.type, dtype, enabled))
            stack.enter_context(self._with_buffers())
            yield

    @contextmanager
    def _with_buffers(self) -> Iterator[None]:
        # Tensors are replaced, not overwritten: autograd may have saved them.
        now = [(module, name, module._buffers[name]) for module, name, _ in self._buffers]
        try:
            for module, name, buffer in self._buffers:
                module._buffers[name] = buffer.clone()
            yield
        finally:
            for module, name, current in now:
                module._buffers[name] = current

    @property
    def _on_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def _kind(self) -> str:
        return "cuda" if self._on_cpu else self.device.type  # fork_rng keeps the CPU's state anyway

    def _of_device(self) -> Any:
        return torch.get_device_module(self.device)
