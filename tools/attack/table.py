"""The attacks: a command line, files to write before it, and what is accepted."""

from dataclasses import dataclass, field

SMALL = [
    *(
        "--data.num_nodes=60",
        "--data.num_edges=120",
        "--data.num_features=16",
        "--data.num_classes=3",
    ),
    *(
        "--data.num_train_per_class=5",
        "--data.num_val=10",
        "--data.num_test=10",
        "--model.hidden_channels=8",
    ),
    *("--trainer.accelerator=cpu", "--trainer.max_epochs=2", "--trainer.enable_progress_bar=false"),
]
BOMB = (
    "[&a0 [x]"
    + "".join(f", &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 8))
    + "]"
)
DEEP = "[" * 3000 + "]" * 3000
TRAINED = "trained"  # folder of a finished run that every attack finds
LAST = f"{TRAINED}/checkpoints/last.ckpt"
CONTROL = (
    '{"status": "finished", "name": "\\u001b[31mred", "axes": {"x": "\\u001b]0;t\\u0007"}, '
    '"metrics": {"test/acc": 1}}'
)
HUGE = (
    '{"status": "finished", "name": "a", "metrics": {"test_acc_at_best_val": 1' + "0" * 400 + "}}"
)
EDITED = (
    '{"status": "finished", "name": "a", "metrics": {"test_acc_at_best_val": 0.9}, "checksum": "'
    + "0" * 64
    + '"}'
)
AWAY = "import os\nfrom pathlib import Path\nPath('away').mkdir(exist_ok=True)\nos.chdir('away')\n"
LEAVES = """
import os
from gnn_depth.nn.norms import PairNorm
from gnn_depth import register

@register("norm", "leaves")
class Leaves(PairNorm):
    def __init__(self, channels: int):
        super().__init__(channels)
        os.makedirs("away", exist_ok=True)
        os.chdir("away")

    def forward(self, x, graph):
        os.chdir("/")
        return super().forward(x, graph)
"""


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: What is attacked.
        argv: The command line.
        files: Files to write first: text, or bytes.
        codes: Accepted exit codes.
        seconds: Longest CPU time.
        lines: Longest output on standard error.
        after: Files that must exist afterwards (true) or must not (false).
    """

    name: str
    argv: list[str]
    files: dict[str, str | bytes] = field(default_factory=dict)
    codes: tuple[int, ...] = (2,)
    seconds: float = 2.0
    lines: int = 24
    after: dict[str, bool] = field(default_factory=dict)


def fit(*argv: str) -> list[str]:
    """A short training with further options."""
    return ["fit", *SMALL, *argv]


def _axes(count: int) -> str:
    names = ("num_layers", "hidden_channels", "reversible")
    return "axes:\n" + "".join(f"  model.{name}: {list(range(1, count + 1))}\n" for name in names)


def _axis(option: str, value: str) -> str:
    return f"axes:\n  {option}: [{value}]\n"


YAML = [
    attack
    for name, text in (("bomb", BOMB), ("deep", DEEP))
    for attack in (
        Attack(f"{name} in an option", fit("--model.num_layers", text)),
        Attack(f"{name} in an option of a part", fit("--model.layer", text)),
        Attack(f"{name} in a data set's option", fit("--data.num_nodes", text)),
        Attack(f"{name} in a callback", fit("--trainer.callbacks", text)),
        Attack(f"{name} in a name", fit("--run.name", text)),
        Attack(
            f"{name} in a config",
            fit("--config", "c.yaml"),
            {"c.yaml": f"model:\n  norm: {text}\n"},
        ),
        Attack(
            f"{name} in a config's text",
            fit("--config", "c.yaml"),
            {"c.yaml": f"model: {{num_layers: '{text}'}}"},
        ),
        Attack(
            f"{name} in a trusted config's text",
            fit("--trusted-only", "--config", "c.yaml"),
            {"c.yaml": f"trainer:\n  limit_train_batches: '{text}'\n"},
        ),
        Attack(
            f"{name} in a grid",
            ["sweep", "g.yaml", "--dry-run"],
            {"g.yaml": f"axes:\n  model.norm: {text}\n"},
        ),
        Attack(f"{name} as plugins", fit("--plugins", text)),
        Attack(
            f"{name} in published numbers",
            ["table", TRAINED, "--rows=name", "--published=p.yaml"],
            {"p.yaml": text},
        ),
    )
]

SIZES = [
    Attack("hidden_channels 1e6", fit("--model.hidden_channels=1000000")),
    Attack("num_layers 1e5", fit("--model.num_layers=100000")),
    Attack("heads 1e7", fit("--model.layer=gat", "--model.layer.heads=10000000")),
    Attack("heads 1e12", fit("--model.layer=gat", "--model.layer.heads=1000000000000")),
    Attack("groups 1e12", fit("--model.norm=group", "--model.norm.groups=1000000000000")),
    Attack(
        "heads 1e7 in probe", ["probe", *SMALL, "--model.layer=gat", "--model.layer.heads=10000000"]
    ),
    Attack("nodes 1e12", fit("--data.num_nodes=1000000000000")),
    Attack("features 1e12", fit("--data.num_features=1000000000000")),
    Attack("words 1e12", fit("--data.words_per_node=1000000000000")),
    Attack("devices 99999", fit("--trainer.devices=99999")),
    Attack("machines 1e12", fit("--trainer.num_nodes=1000000000000")),
    *(
        Attack(
            f"{option} {value} in a grid",
            ["sweep", "g.yaml", "--dry-run"],
            {"g.yaml": _axis(option, value)},
        )
        for option, value in (
            ("model.num_layers", "0"),
            ("model.hidden_channels", "1000000"),
            ("model.optimizer", "SparseAdam"),
            ("trainer.gradient_clip_val", "-1"),
        )
    ),
    Attack("a grid of 1e9 runs", ["sweep", "g.yaml", "--dry-run"], {"g.yaml": _axes(1000)}),
    Attack(
        "1e9 seeds", ["sweep", "g.yaml", "--dry-run", "--seeds=1000000000"], {"g.yaml": _axes(2)}
    ),
]

OPTIONS = [
    *(
        Attack(f"{option} {value}", fit(f"--{option}={value}"))
        for option, values in {
            "trainer.accumulate_grad_batches": ("0", "-1"),
            "trainer.check_val_every_n_epoch": ("0", "-1"),
            "trainer.log_every_n_steps": ("0", "-1"),
            "trainer.gradient_clip_val": ("-1", ".nan"),  # infinity clips nothing, and works
            "trainer.max_epochs": ("0", "-2", "x"),
            "trainer.limit_train_batches": ("0", "-1", "1.5"),
            "trainer.devices": ("0", "-5", "x"),
            "trainer.precision": ("7", "x"),
            "model.dropout": ("-1", "2", ".nan", ".inf"),
            "model.num_layers": ("0", "-1", "1e3"),
            "model.hidden_channels": ("0", "-1"),
            "model.optimizer.lr": ("-1", ".nan"),
            "run.save_every_minutes": ("0", "-1", ".nan"),
            "run.save_every_epochs": ("0", "-1"),
            "seed_everything": ("-1", "1000000000000"),
        }.items()
        for value in values
    ),
    Attack("batch norm's eps -1", fit("--model.norm=batch", "--model.norm.eps=-1")),
    Attack("batch norm's eps NaN", fit("--model.norm=batch", "--model.norm.eps=.nan")),
    Attack("step_size 0", fit("--model.scheduler=StepLR", "--model.scheduler.step_size=0")),
    Attack("SparseAdam", fit("--model.optimizer=SparseAdam")),
    Attack("LearningRateFinder", fit("--trainer.callbacks=LearningRateFinder")),
    Attack("BackboneFinetuning", fit("--trainer.callbacks=BackboneFinetuning")),
    Attack(
        "ModelPruning",
        fit("--trainer.callbacks=ModelPruning", "--trainer.callbacks.pruning_fn=l1_unstructured"),
        seconds=5,
    ),
    Attack("a timer", fit("--trainer.callbacks=Timer"), codes=(0,), seconds=5),
    Attack(
        "a timer's nonsense", fit("--trainer.callbacks=Timer", "--trainer.callbacks.duration=x")
    ),
    Attack("/dev/null as config", fit("--config=/dev/null")),
    Attack("control characters", fit("--model.norm=\x1b[31mred")),
    Attack("a very long name", fit("--model.norm=" + "x" * 100_000)),
    Attack(
        "a plugin that leaves the folder",
        fit("--plugins=p.py", "--run.root=r"),
        {"p.py": AWAY},
        (0,),
        10,
        after={"r": True},
    ),
    Attack(
        "a part that leaves the folder",
        fit("--plugins=leaves.py", "--model.norm=leaves", "--run.root=r"),
        {"leaves.py": LEAVES},
        (0,),
        10,
        after={"r": True},
    ),
]

PART = f"{TRAINED}/checkpoints/.last.ckpt.part"
FILES = [
    Attack(
        "what a killed run left half written",
        fit("--run.root=..", "--run.name=place", "--trainer.max_epochs=3", "--ckpt_path=auto"),
        {PART: ""},
        (0,),
        10,
        after={PART: False},
    ),
    Attack("a checkpoint that is text", ["test", "--ckpt_path=bare.ckpt"], {"bare.ckpt": "x"}),
    Attack("an empty checkpoint", ["test", "--ckpt_path=bare.ckpt"], {"bare.ckpt": ""}),
    Attack(
        "a checkpoint cut short",
        ["test", "--ckpt_path=cut.ckpt"],
        {"cut.ckpt": b"PK\x03\x04" + bytes(500)},
    ),
    Attack(
        "an output that exists", ["predict", f"--ckpt_path={LAST}", "--output=p.csv"], {"p.csv": ""}
    ),
    Attack("an output in no folder", ["predict", f"--ckpt_path={LAST}", "--output=no/p.csv"]),
    Attack(
        "a result nested without end",
        ["table", "odd", "--rows=name"],
        {"odd/result.json": "[" * 100_000},
    ),
    Attack("a result that is a list", ["table", "odd", "--rows=name"], {"odd/result.json": "[]"}),
    Attack(
        "a result with another checksum",
        ["table", "odd", "--rows=name"],
        {"odd/result.json": EDITED},
    ),
    Attack(
        "a metric of 400 digits",
        ["table", "odd", "--rows=name"],
        {"odd/result.json": HUGE},
        codes=(0, 2),
    ),
    Attack(
        "control characters in a result",
        ["table", "odd", "--rows=x"],
        {"odd/result.json": CONTROL},
        codes=(0, 2),
    ),
    Attack(
        "a config that is a picture",
        fit("--config=c.yaml"),
        {"c.yaml": b"\x89PNG\r\n\x1a\n\x00\xff"},
    ),
    Attack(
        "a config of keys that are lists", fit("--config=c.yaml"), {"c.yaml": "? [a, b]\n: 1\n"}
    ),
    Attack("an alias inside itself", fit("--config=c.yaml"), {"c.yaml": "model: &x [*x]\n"}),
    Attack(
        "a tag that calls",
        fit("--config=c.yaml"),
        {"c.yaml": "model: !!python/object/apply:os.getcwd []\n"},
    ),
    Attack(
        "a plugin that raises",
        fit("--plugins=raises.py"),
        {"raises.py": "raise RuntimeError('no')\n"},
    ),
    Attack("a plugin that exits", fit("--plugins=exits.py"), {"exits.py": "raise SystemExit(0)\n"}),
]

GROUPS = {"yaml": YAML, "sizes": SIZES, "options": OPTIONS, "files": FILES}
