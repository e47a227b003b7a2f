"""The attacks: a command line, files to write before it, and what is accepted."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

SMALL = [
    "--data.num_nodes=60",
    "--data.num_edges=120",
    "--data.num_features=16",
    "--data.num_classes=3",
    "--data.num_train_per_class=5",
    "--data.num_val=10",
    "--data.num_test=10",
    "--model.hidden_channels=8",
    "--trainer.accelerator=cpu",
    "--trainer.max_epochs=2",
    "--trainer.enable_progress_bar=false",
]
#: YAML that grows tenfold with every level, and a list that is nested without end.
BOMB = "[&a0 [x]"
for level in range(1, 8):
    BOMB += f", &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]"
BOMB += "]"
DEEP = "[" * 3000 + "]" * 3000
TRAINED = "trained"  # folder of a finished run that every attack finds
LAST = f"{TRAINED}/checkpoints/last.ckpt"
PART = f"{TRAINED}/checkpoints/.last.ckpt.part"
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


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: What is attacked.
        argv: The command line.
        files: Files to write first: a character for each byte, or a function that returns it.
        codes: Accepted exit codes.
        says: Words that the command must print.
    """

    name: str
    argv: list[str]
    files: dict[str, str | Callable[[], str]] = field(default_factory=dict)
    codes: tuple[int, ...] = (2,)
    says: str = ""


def fit(*argv: str) -> list[str]:
    """A short training with further options."""
    return ["fit", *SMALL, *argv]


def refused(words: str) -> Attack:
    """A training whose further options are refused."""
    return Attack(words, fit(*words.split()))


def config(name: str, content: str) -> Attack:
    """A config that is refused."""
    return Attack(name, fit("--config=c.yaml"), {"c.yaml": content})


def grid(name: str, content: str, *options: str) -> Attack:
    """A grid that is refused."""
    return Attack(name, ["sweep", "g.yaml", "--dry-run", *options], {"g.yaml": content})


def result(name: str, content: str, *codes: int) -> Attack:
    """A table of a run's result."""
    return Attack(name, ["table", "odd", "--rows=x"], {"odd/result.json": content}, codes or (2,))


YAML = []
for name, text in (("bomb", BOMB), ("deep", DEEP)):
    published = ["table", TRAINED, "--rows=name", "--published=p.yaml"]
    YAML += [
        Attack(f"{name} in --plugins", fit("--plugins", text)),
        Attack(f"{name} in published numbers", published, {"p.yaml": text}),
    ]

THOUSAND = list(range(1, 1001))
AXES = f"  model.num_layers: {THOUSAND}\n  model.hidden_channels: {THOUSAND}\n"
SIZES = [
    refused("--model.hidden_channels=1000000"),
    refused("--model.num_layers=100000"),
    refused("--model.layer=gat --model.layer.heads=1000000000000"),
    refused("--model.norm=group --model.norm.groups=1000000000000"),
    refused("--data.num_nodes=1000000000000"),
    refused("--data.num_features=1000000000000"),
    refused("--trainer.devices=99999"),
    refused("--trainer.num_nodes=1000000000000"),
    grid("a negative limit in a grid", "axes:\n  trainer.gradient_clip_val: [-1]\n"),
    grid("a grid of 1e9 runs", f"axes:\n{AXES}  model.reversible: {THOUSAND}\n"),
    grid("1e9 seeds", "axes:\n  model.num_layers: [1, 2]\n", "--seeds=1000000000"),
]

VALUES = {
    "trainer.accumulate_grad_batches": "0 -1",
    "trainer.gradient_clip_val": "-1 .nan",  # infinity clips nothing, and works
    "trainer.max_epochs": "0 -2 x",
    "trainer.limit_train_batches": "0 -1 1.5",
    "trainer.devices": "0 -5 x",
    "trainer.precision": "7 x",
    "model.dropout": "-1 2 .nan .inf",
    "model.num_layers": "0 -1 1e3",
    "model.optimizer.lr": "-1 .nan",
    "run.save_every_minutes": "0 -1 .nan",
    "seed_everything": "-1 1000000000000",
}
OPTIONS = []
for option, values in VALUES.items():
    OPTIONS += [refused(f"--{option}={value}") for value in values.split()]
OPTIONS += [
    refused("--model.norm=pair --model.norm.scale=.nan"),
    refused("--trainer.callbacks=LearningRateFinder"),
    refused("--trainer.callbacks=StochasticWeightAveraging --trainer.callbacks.swa_lrs=0.01"),
    refused("--trainer.callbacks=Timer --trainer.callbacks.duration=x"),
    refused("--trainer.callbacks=ModelPruning --trainer.callbacks.pruning_fn=l1_unstructured"),
    Attack("a timer", fit("--trainer.callbacks=Timer"), codes=(0,)),
    Attack("control characters", fit("--model.norm=\x1b[31mred")),
]

LONGER = ("--run.root=..", "--run.name=place", "--trainer.max_epochs=3", "--ckpt_path=auto")
PREDICT = ["predict", f"--ckpt_path={LAST}"]
TEST = ["test", "--ckpt_path=bare.ckpt"]
FILES = [
    Attack("what a killed run left half written", fit(*LONGER), {PART: ""}, (0,)),
    Attack("a checkpoint that is text", TEST, {"bare.ckpt": "x"}),
    Attack("an empty checkpoint", TEST, {"bare.ckpt": ""}),
    Attack("a checkpoint cut short", TEST, {"bare.ckpt": "PK\x03\x04" + "\0" * 500}),
    Attack("an output that exists", [*PREDICT, "--output=p.csv"], {"p.csv": ""}),
    Attack("an output in no folder", [*PREDICT, "--output=no/p.csv"]),
    result("a result nested without end", "[" * 100_000),
    result("a result with another checksum", EDITED),
    result("a metric of 400 digits", HUGE, 0, 2),
    result("control characters in a result", CONTROL, 0, 2),
    config("a config that is a picture", "\x89PNG\r\n\x1a\n\x00\xff"),
    config("a config of keys that are lists", "? [a, b]\n: 1\n"),
    Attack("a plugin that exits", fit("--plugins=exits.py"), {"exits.py": "raise SystemExit(0)\n"}),
]


def names_code() -> str:
    """A checkpoint of the trained run whose hyperparameters name a function to import and call."""
    content = torch.load(LAST, weights_only=False)
    content["hyper_parameters"]["_instantiator"] = "marker.call"
    written = io.BytesIO()
    torch.save(content, written)
    return written.getvalue().decode("latin-1")


MARKER = {"bare.ckpt": names_code, "marker.py": "print('IMPORTED')\n"}
CLIPPED = ("--trainer.precision=bf16-mixed", "--trainer.gradient_clip_val=1")
GAT = {"c.yaml": "model: {layer: {name: gat, heads: 3}}\n"}
KEPT = ("--config=c.yaml", "--model.layer=gatv2", "--print_config")
DROPPED = ("--config=c.yaml", "--model.layer=gcn")
LIGHTNING = [
    Attack("averaged weights", fit("--trainer.callbacks=WeightAveraging"), codes=(0,)),
    Attack("clipped in bfloat16", fit(*CLIPPED), codes=(0,)),
    Attack("an option that the new layer has", fit(*KEPT), GAT, (0,), says="heads: 3"),
    Attack("an option that it lacks", fit(*DROPPED), GAT, (0,), says="takes no heads from gat"),
]
for argv in (["test"], ["predict", "--output=p.csv"], ["probe"], ["fit"]):
    argv.append("--ckpt_path=bare.ckpt")
    LIGHTNING.append(Attack(f"code named, {argv[0]}", argv, MARKER, says="_instantiator"))

GROUPS = {
    "yaml": YAML,
    "sizes": SIZES,
    "options": OPTIONS,
    "files": FILES,
    "lightning": LIGHTNING,
}
