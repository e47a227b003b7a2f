import pytest

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.settings import choose_runs, full_name, grouped, label, same


def test_a_label_is_the_value_as_yaml_writes_it_and_a_number_has_several_spellings():
    values = {2.0: "2", True: "true", "gat": "gat", None: "-", float("nan"): "-", 1e30: "1e+30"}
    assert [label(value) for value in values] == list(values.values())
    assert same("1e-3", "0.001")
    assert not same("10", "1")
    assert not same("nan", "NaN")


def test_an_axis_is_called_by_its_name_or_its_last_word(run, runs):
    run(
        result={
            "axes": {"model.num_layers": 2, "data": "Cora"},
            "hparams": {"model.layer": "gat", "a.lr": 1, "b.lr": 1},
        }
    )
    frame = read_runs(runs)
    assert full_name(frame, "data") == "data"
    assert full_name(frame, "num_layers") == "model.num_layers"
    assert full_name(frame, "layer") == "model.layer"
    assert full_name(frame, "seed") == "seed"
    with pytest.raises(ReportError, match=r"'lr': a\.lr, b\.lr"):
        full_name(frame, "lr")
    with pytest.raises(ReportError, match=r"'daat'.*'data'.*data, model.num_layers"):
        full_name(frame, "daat")


def test_chosen_runs_have_one_of_the_values(run, runs):
    for norm in ("lipschitz", "none", "pair"):
        for depth in (2, 10):
            run(seed=depth, depth=depth, norm=norm)
    frame = choose_runs(read_runs(runs), {"norm": ["pair", "lipschitz"], "depth": ["2.0"]})
    assert frame["norm"].tolist() == ["lipschitz", "pair"]
    assert set(frame["depth"]) == {2}
    assert frame.attrs["axes"] == ["depth", "norm"]


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("data", {"data_sha256": "a"}, {"data_sha256": "b"}),
        ("plugins", {"plugins": ["my_norm.py a"]}, {"plugins": ["my_norm.py b"]}),
    ],
)
def test_runs_of_changed_data_or_plugins_are_not_averaged(run, runs, what, first, second):
    for seed, content in enumerate((first, first)):
        run(seed=seed, result=content)
    run(seed=2)  # of an older version, which does not know
    assert len(grouped(read_runs(runs), [], "use")) == 1
    run(seed=3, result=second)
    with pytest.raises(ReportError, match=f"equal options, but their {what} had changed"):
        grouped(read_runs(runs), [], "use")
    grouped(read_runs(runs), ["seed"], "use")


def test_each_seed_may_have_data_of_its_own(run, runs):
    for seed in range(2):
        content = {"data_sha256": str(seed), "per_seed": ["data.init_args.split_index"]}
        run(seed=seed, result=content)
    assert len(grouped(read_runs(runs), [], "use")) == 1
