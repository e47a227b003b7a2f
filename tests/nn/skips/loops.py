"""Every skip connection as its formula, one node and channel at a time."""

import math

import torch


def mapped(project, row):
    """A row of a state at the width of what it joins."""
    weight = getattr(project, "weight", None)
    return row if weight is None else torch.stack([sum(w * v for w, v in zip(line, row)) for line in weight])


def none(skip, update, states, node):
    return list(update[node])


def residual(skip, update, states, node):
    kept = mapped(skip.project, states[-1][node])
    return [kept[channel] + new for channel, new in enumerate(update[node])]


def initial_residual(skip, update, states, node):
    first = mapped(skip.project, states[0][node])
    return [skip.alpha * first[channel] + (1 - skip.alpha) * new for channel, new in enumerate(update[node])]


def dense(skip, update, states, node):
    return [*states[-1][node], *update[node]]


def gated(skip, update, states, node):
    kept, out = mapped(skip.project, states[-1][node]), []
    for channel, new in enumerate(update[node]):
        inside = skip.bias[channel] + sum(w * v for w, v in zip(skip.gate.weight[channel], states[-1][node]))
        opened = 1 / (1 + math.e ** (-inside))
        out.append(opened * new + (1 - opened) * kept[channel])
    return out


def rezero(skip, update, states, node):
    kept = mapped(skip.project, states[-1][node])
    return [kept[channel] + skip.scale[0] * new for channel, new in enumerate(update[node])]


def layer_scale(skip, update, states, node):
    kept = mapped(skip.project, states[-1][node])
    return [kept[channel] + skip.scale[channel] * new for channel, new in enumerate(update[node])]


def of_all_nodes(loop, skip, update, states):
    return torch.stack([torch.stack(loop(skip, update, states, node)) for node in range(len(update))])
