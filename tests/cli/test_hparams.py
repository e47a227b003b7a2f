from gnn_depth.cli.config import contract_config
from gnn_depth.cli.identity import hparams


def test_a_part_and_its_options_stand_at_the_key_of_the_part():
    lipschitz = {"class_path": "gnn_depth.nn.norms.lipschitz.LipschitzNorm", "init_args": {"scale": 4.0}}
    config = {
        "seed_everything": 3,
        "data": {"class_path": "gnn_depth.data.planetoid.Planetoid", "init_args": {"name": "Cora", "root": None}},
        "model": {
            "layer": {"class_path": "gnn_depth.nn.layers.gat.GAT", "init_args": {"heads": 8}},
            "norm": [lipschitz],
            "optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.1, "betas": [0.9, 0.999]}},
        },
        "trainer": {"max_epochs": 5, "devices": "auto"},
        "plugins": [],
    }
    assert hparams(contract_config(config)) == {
        "seed_everything": 3,
        "data": "Planetoid",
        "data.name": "Cora",
        "model.layer": "gat heads=8",
        "model.layer.name": "gat",
        "model.layer.heads": 8,
        "model.norm": "lipschitz scale=4.0",
        "model.norm.0.name": "lipschitz",
        "model.norm.0.scale": 4.0,
        "model.optimizer": "torch.optim.Adam",
        "model.optimizer.lr": 0.1,
        "model.optimizer.betas": "[0.9, 0.999]",
        "trainer.max_epochs": 5,
    }


def test_a_part_is_called_by_its_name_and_by_what_is_not_its_default():
    norms = "gnn_depth.nn.norms"
    pair = {"class_path": f"{norms}.pair.PairNorm", "init_args": {"scale": 1.0}}
    batch = {"class_path": f"{norms}.batch.BatchNorm", "init_args": {"affine": False, "eps": 1e-5}}
    balanced = "gnn_depth.nn.inits.balanced.Balanced"
    orthogonal = {"class_path": "gnn_depth.nn.inits.matrices.LooksLinearOrthogonal"}

    def said(**model: object) -> str:
        ((name, part),) = model.items()
        return hparams(contract_config({"model": {name: part}}))[f"model.{name}"]

    assert said(norm=[]) == "none"
    assert said(norm=[pair, batch]) == "pair+batch affine=false"
    assert said(init={"class_path": balanced, "init_args": {"base": orthogonal}}) == (
        "balanced base=looks_linear_orthogonal"
    )
    assert said(layer={"class_path": "my_layers.Mine", "init_args": {"k": 3}}) == "my_layers.Mine"
