"""Every skip connection as its formula, one node and channel at a time."""

import math

import torch


def mapped(project, row):
    """A row of a state at the width of what it joins."""
    weight = getattr(project, "weight", None)
    return row if weight is None else torch.stack([sum(w * v for w, v in zip(line, row)) for line in weight])


def of_all_nodes(name, skip, update, states):
    return torch.stack(
        [torch.stack(of_node(name, skip, update[i], [x[i] for x in states])) for i in range(len(update))]
    )


def of_node(name, skip, update, states):
    if name == "none":
        return list(update)
    if name == "dense":
        return [*states[-1], *update]
    kept = mapped(skip.project, states[0 if name == "initial_residual" else -1])
    if name == "initial_residual":
        return [skip.alpha * old + (1 - skip.alpha) * new for old, new in zip(kept, update)]
    if name == "gated":
        inside = [b + sum(w * v for w, v in zip(line, states[-1])) for b, line in zip(skip.bias, skip.gate.weight)]
        opened = [1 / (1 + math.e ** (-value)) for value in inside]
        return [t * new + (1 - t) * old for t, old, new in zip(opened, kept, update)]
    scale = torch.ones(1) if name == "residual" else skip.scale
    return [old + scale.expand(len(update))[channel] * update[channel] for channel, old in enumerate(kept)]
