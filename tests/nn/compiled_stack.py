"""A stack with compiled layers is the stack. Run by tests/nn/test_compiled.py, in a process of its
own."""

import copy
import json
import logging
import pickle
from functools import partial
from uuid import uuid4

import pytest
import torch

from gnn_depth.cli import main
from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.block import States
from gnn_depth.nn.layers import GAT, GCN, GGNN, GATv2, Transformer
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm, PairNorm, SpectralNorm
from gnn_depth.nn.parts import FeatureNorm, ScoreNorm
from gnn_depth.nn.skips import Residual
from gnn_depth.nn.variants import recompute
from tests.nn.conftest import compiled_only
from tests.nn.functional.cases import distance
from tests.nn.stacks import Oscillator

pytestmark = pytest.mark.usefixtures("compiler")
slow = pytest.mark.slow

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))

STACKS = {
    "gat": partial(
        DeepGNN,
        layer=partial(GAT, heads=2, dropout=0.3),
        norm=[LipschitzNorm],
        activation="elu",
        dropout=0.5,
        encoder="none",
        decoder="none",
    ),
    "gatv2": partial(
        DeepGNN, layer=partial(GATv2, heads=2, share_weights=True), norm=[PairNorm], dropout=0.6
    ),
    "gcn": partial(DeepGNN, layer=GCN, skip=Residual, dropout=0.5),
    "second_state": partial(DeepGNN, layer=GCN, skip=Oscillator, dropout=0.5),
    "transformer": partial(
        DeepGNN,
        layer=partial(Transformer, heads=2, dropout=0.3, beta=True),
        norm=[LipschitzNorm],
        activation="elu",
    ),
    "edges": partial(DeepGNN, layer=partial(GATv2, heads=2), dropout=0.5, edge_channels=2),
    "ggnn": partial(DeepGNN, layer=GGNN, activation="identity", share_layers=True, dropout=0.5),
}


def two_of(kind, dtype=torch.float32, layers=2):
    """A stack, and its copy with compiled layers."""
    stack = STACKS[kind](6, 3, num_layers=layers, hidden_channels=4).to(dtype)
    twin = copy.deepcopy(stack)
    twin.compile_layers()
    return stack, twin


def step(stack, x, graph, num_outputs=None):
    """Logits, loss and gradients of a training step."""
    torch.manual_seed(7)
    stack.zero_grad()
    logits = stack(x, graph, num_outputs)
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 3)
    loss.backward()
    return [logits], [loss], [parameter.grad for parameter in stack.parameters()]


def assert_ran_compiled(stack):
    assert stack.compiled.failed is None
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert not torch._dynamo.utils.counters["graph_break"]


def assert_same_step(stack, twin, x, graph, tolerance):
    for wanted, got in zip(step(stack, x, graph), step(twin, x, graph)):
        assert distance(got, wanted) <= tolerance


def mirrored(graph):
    return Graph(torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1), graph.num_nodes)


def featured(graph):
    return Graph(graph.edge_index, graph.num_nodes, edge_attr=torch.randn(graph.num_edges, 2))


def assert_same_numbers(kind, dtype, graph, layers):
    stack, twin = two_of(kind, dtype, layers)
    x, graph = X.to(dtype), mirrored(graph) if dtype == torch.float64 else graph
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for _ in range(2):
        assert_same_step(stack, twin, x, graph, tolerance)
    if dtype == torch.float64:
        with torch.no_grad():
            assert distance([twin.eval()(x, graph)], [stack.eval()(x, graph)]) <= tolerance
        assert_same_step(stack.train(), twin.train(), x, graph, tolerance)
    assert_ran_compiled(twin)
    for before, after in zip(stack.parameters(), twin.parameters()):
        assert before.dtype == after.dtype == dtype
    assert list(stack.state_dict()) == list(twin.state_dict())


@slow  # the compiled GCN below does the same
@pytest.mark.parametrize("kind", STACKS)
def test_training_and_evaluation_are_those_of_the_stack(kind, graph):
    graph = featured(graph) if kind == "edges" else graph
    assert_same_numbers(
        kind, torch.float64 if kind in ("gatv2", "gcn") else torch.float32, graph, layers=2
    )


@compiled_only
@pytest.mark.parametrize(
    ("kind", "dtype"), [("gcn", torch.float64), pytest.param("gatv2", torch.float32, marks=slow)]
)
def test_compiled_code_does_what_the_stack_does(kind, dtype, graph):
    assert_same_numbers(kind, dtype, graph, layers=1)


def test_several_graphs_one_after_the_other_each_get_their_own_numbers(graph, chain):
    """Of one of them only the first node is read."""
    stack, twin = two_of("gcn", layers=1)
    for structure, read in ((graph, 9), (chain, 1), (graph, 9)):
        expected = step(stack, X, structure, read)
        for wanted, got in zip(expected, step(twin, X, structure, read)):
            assert distance(got, wanted) <= 1e-5
    assert_ran_compiled(twin)


@slow
def test_compiled_blocks_give_equal_numbers_where_only_some_nodes_are_read(chain):
    stack = DeepGNN(6, 3, GCN, 2, 4, [LayerNorm], Residual, norm_after_skip=True, dropout=0.5)
    twin = copy.deepcopy(stack)
    twin.compile_layers()
    for ours, theirs in zip(step(twin, X, chain, 1), step(stack, X, chain, 1)):
        assert distance(ours, theirs) <= 1e-5
    assert_ran_compiled(twin)


@torch.no_grad()
def test_a_block_runs_uncompiled_while_a_module_inside_it_has_a_hook(graph):
    stack, twin = (each.eval() for each in two_of("gcn"))
    expected, seen = stack(X, graph), []
    assert distance([twin(X, graph)], [expected]) <= 1e-5
    handles = []
    for layer in twin.layers:
        handles.append(layer.lin.register_forward_hook(lambda *args: seen.append(1)))
    assert torch.equal(twin(X, graph), expected)
    handles.pop().remove()
    assert distance([twin(X, graph)], [expected]) <= 1e-5
    handles.pop().remove()
    assert distance([twin(X, graph)], [expected]) <= 1e-5
    assert seen == [1, 1, 1]
    assert_ran_compiled(twin)


@slow
@torch.no_grad()
def test_hooks_on_a_block_see_its_input_while_it_runs_compiled(graph):
    stack, twin = (each.eval() for each in two_of("gcn"))
    seen = []
    for block in twin.blocks:
        block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    twin(X, graph)
    expected = stack.encoder(X)
    for block, state in zip(stack.blocks, seen, strict=True):
        assert distance([state], [expected]) <= 1e-5
        expected = block(expected, graph, States())
    assert_ran_compiled(twin)


@slow
@compiled_only
def test_what_was_traced_once_is_found_on_disk_until_what_is_done_to_it_changes(graph, monkeypatch):
    stack, twin = two_of("gatv2", layers=1)
    expected = step(stack, X, graph)
    found = {}
    for uuid in (recompute.Recompute().uuid(), recompute.Recompute().uuid(), str(uuid4())):
        monkeypatch.setattr(recompute.Recompute, "uuid", lambda self, uuid=uuid: uuid)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        for wanted, got in zip(expected, step(copy.deepcopy(twin), X, graph)):
            assert distance(got, wanted) <= 1e-5
        found[uuid] = dict(torch._dynamo.utils.counters["aot_autograd"])
    kept, changed = found.values()
    assert kept["autograd_cache_hit"] == kept["total"] > 0
    assert "autograd_cache_hit" not in changed
    assert "autograd_cache_bypass" not in kept | changed


def test_copies_pickles_and_saved_states_of_a_compiled_stack_are_the_stack(graph):
    stack, twin = two_of("gcn", layers=1)
    with torch.no_grad():
        expected = stack.eval()(X, graph)
        twin.eval()(X, graph)
        for again in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
            assert distance([again.eval()(X, graph)], [expected]) <= 1e-5
            assert_ran_compiled(again)
            assert all(p is not q for p, q in zip(again.parameters(), twin.parameters()))
    assert all(
        torch.equal(value, twin.state_dict()[name]) for name, value in stack.state_dict().items()
    )


def test_layers_with_normed_weights_share_their_compiled_code_and_follow_the_weights(graph):
    stack = DeepGNN(6, 3, GCN, 3, 4, norm=[partial(SpectralNorm, per_depth=2.0)], skip=Residual)
    twin = copy.deepcopy(stack)
    twin.compile_layers()
    optimizers = [torch.optim.SGD(model.parameters(), 0.5) for model in (stack, twin)]
    for _ in range(3):
        assert_same_step(stack, twin, X, graph, 1e-4)
        sizes = [
            torch.linalg.matrix_norm(layer.lin.normed_weight, 2).item() for layer in twin.layers
        ]
        assert max(sizes) <= 2 / 3 * (1 + 1e-3)
        for optimizer in optimizers:
            optimizer.step()
    assert_ran_compiled(twin)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2, (
        "the first block, and all others"
    )


class Tempered(ScoreNorm):
    """A plugin in plain PyTorch, with a parameter."""

    def __init__(self, heads):
        super().__init__(heads)
        self.temperature = torch.nn.Parameter(torch.ones(heads))

    def forward(self, scores, score, graph):
        largest = torch.full((graph.num_nodes, self.heads), -1e9, dtype=scores.dtype)
        index = graph.target[:, None].expand_as(scores)
        largest = largest.scatter_reduce(0, index, scores, "amax", include_self=False)
        return (scores - largest[graph.target]) * self.temperature.sigmoid()


class Reader(FeatureNorm):
    """A plugin that leaves PyTorch: no compiler can follow."""

    def forward(self, x, graph):
        return x / (1 + float(x.detach().abs().numpy().max()))


@pytest.mark.parametrize("norm", [pytest.param(Tempered, marks=slow), Reader])
def test_a_plugin_gives_its_numbers_whether_it_can_be_compiled_or_not(norm, graph):
    stack = DeepGNN(6, 3, GAT if norm is Tempered else GCN, 1, 4, norm=[norm], dropout=0.5)
    twin = copy.deepcopy(stack)
    twin.compile_layers()
    for _ in range(2):
        assert_same_step(stack, twin, X, graph, 1e-5)
    if norm is Tempered:
        assert_ran_compiled(twin)


def test_a_stack_whose_compilation_fails_runs_uncompiled_and_says_so_once(graph, caplog):
    stack, twin = two_of("gcn")

    def fail(*args):
        raise torch._dynamo.exc.TorchDynamoException("no such luck\nand more of it")

    twin.compiled.compiled = fail
    with caplog.at_level(logging.WARNING, "gnn_depth"):
        for _ in range(2):
            assert_same_step(stack, twin, X, graph, 0)
    (said,) = (record.getMessage() for record in caplog.records if record.name == "gnn_depth")
    assert said.startswith("layers run uncompiled from here on: no such luck")


@pytest.mark.parametrize("inside", [True, pytest.param(False, marks=slow)])
def test_a_library_that_a_killed_run_left_torn_is_compiled_anew(
    graph, inside, tmp_path, monkeypatch
):
    stack, twin = two_of("gcn")
    torn = tmp_path / ("cache" if inside else "elsewhere") / "ab" / "code.main.so"
    torn.parent.mkdir(parents=True)
    torn.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))

    def load(*args):
        if torn.exists():
            raise torch._dynamo.exc.TorchDynamoException(
                f"ImportError: {torn}: file too short\nand more of it"
            )
        return twin.compiled.function(*args)

    twin.compiled.compiled = load
    assert_same_step(stack, twin, X, graph, 0)
    assert torn.exists() is not inside
    assert (twin.compiled.failed is None) is inside


def test_only_training_on_the_graph_that_was_named_is_compiled(graph):
    stack = STACKS["gcn"](6, 3, num_layers=3, hidden_channels=4)
    stack.compile_layers(only=graph)
    equal, calls = Graph(graph.edge_index, 9), []
    stack.compiled.compiled = lambda *args: calls.append(1) or stack.compiled.function(*args)
    for given, training, blocks in ((graph, True, 3), (graph, False, 0), (equal, True, 0)):
        calls.clear()
        stack.train(training)(X, given, 2)
        assert len(calls) == blocks


def kept_by_a_block(graph, **parts):
    """What a middle block keeps for the backward pass: each tensor once."""
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=4, **parts)
    stack.compile_layers()
    call, found, of_blocks = stack.compiled.compiled, {}, []

    def one_block(*args):
        before = set(found)
        out = call(*args)
        of_blocks.append([x for pointer, x in found.items() if pointer not in before])
        return out

    stack.compiled.compiled = one_block
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: found.setdefault(x.data_ptr(), x), lambda x: x
    ):
        stack(X, graph)
    assert stack.compiled.failed is None
    return of_blocks[1]


def floats_and_bytes(kept):
    """How many of them have the size of a state."""
    dtypes = [x.dtype for x in kept if x.numel() == 9 * 4]
    return [dtypes.count(torch.float32), dtypes.count(torch.uint8)]


def test_a_block_of_a_residual_gcn_keeps_its_input_and_a_byte_of_its_relu(graph):
    assert floats_and_bytes(kept_by_a_block(graph, layer=GCN, skip=Residual)) == [1, 1]


@slow
def test_a_block_computes_dropout_again_and_keeps_what_its_activation_reads(graph):
    kept = kept_by_a_block(graph, layer=GAT, activation="elu", dropout=0.5)
    # Its input, and that of the ELU, whose derivative is not computed from its output.
    assert floats_and_bytes(kept) == [2, 0]
    # To store and to read them takes compiled code longer than to compute them again.
    assert torch.bool not in {x.dtype for x in kept}


@slow
@pytest.mark.parametrize(("layer", "maps"), [(GAT, 1), (GATv2, 2)])
def test_linear_maps_of_a_layer_are_computed_again_where_many_edges_read_them(
    graph, layer, maps, monkeypatch
):
    # One takes 9 x 4 x 4 multiplications, and of its 4 channels 22 edges read 88 numbers.
    assert floats_and_bytes(kept_by_a_block(graph, layer=layer)) == [1, 0]
    monkeypatch.setattr(recompute, "FEW_MULTIPLICATIONS", 0)
    assert floats_and_bytes(kept_by_a_block(graph, layer=layer)) == [1 + maps, 0]


@slow
def test_a_block_without_skip_connection_keeps_its_input_alone(graph):
    assert floats_and_bytes(kept_by_a_block(graph, layer=GCN)) == [1, 0]


@compiled_only
def test_without_a_cpp_compiler_layers_run_uncompiled_with_one_warning(
    graph, caplog, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    torch._inductor.cpp_builder.cpp_compiler_search.cache_clear()
    stack, twin = two_of("gcn")
    with torch.no_grad(), caplog.at_level(logging.WARNING, "gnn_depth"):
        for _ in range(2):
            assert torch.equal(twin.eval()(X, graph), stack.eval()(X, graph))
    assert twin.compiled.failed
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "gnn_depth"]
    assert warning.startswith("layers run uncompiled from here on: ")


def test_a_compiled_run_ends_with_the_metrics_of_an_uncompiled_one(tmp_path, capsys):
    words = """
    --model.layer=gcn --model.num_layers=1 --model.hidden_channels=8 --model.dropout=0.3
    --data.num_nodes=80 --data.num_edges=160 --data.num_train_per_class=3 --data.num_val=20
    --data.num_test=20 --trainer.max_epochs=2 --trainer.accelerator=cpu
    """
    ended = []
    for choice in ("on", "off"):
        options = [f"--run.root={tmp_path / choice}", f"--model.compile={choice}"]
        assert main(["fit", *words.split(), *options]) == 0
        said = capsys.readouterr().err
        assert "from here on" not in said
        (result,) = tmp_path.glob(f"{choice}/*/*/result.json")
        ended.append(json.loads(result.read_text())["metrics"])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert ended[0] == pytest.approx(ended[1], rel=1e-4)
