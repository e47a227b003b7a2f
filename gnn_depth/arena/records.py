"""One line for every training of the arena, in a file that survives being stopped."""

import fcntl
import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnn_depth.runs import digest

#: Of the first line of a file: raised when a reader of the old one would misread the new one.
FORMAT = 2
#: What is kept of a measure of all layers: its value at the first, middle and last layer.
PLACES = ("first", "middle", "last")
#: The measures of a probe, attributes of its values; ratios of two of them are not kept.
MEASURES = (
    *("norm", "out", "mu", "energy", "rank", "zeros", "gradient", "gradient_mu"),
    *("weight_gradient", "stretch", "bound", "imbalance", "defect"),
)


@dataclass(frozen=True)
class TrainingJob:
    """A training of the arena.

    Attributes:
        stage: ``tune``, ``final``, ``small``, or ``reference`` for the shallow stack beside a final
            or small one.
        set: Name of the data set.
        remedy: Name of the remedy.
        depth: Number of layers.
        width: Width of the hidden states.
        setting: Number of the setting.
        split: Number of the split, which is the seed too.
        epochs: The most epochs.
    """

    stage: str
    set: str
    remedy: str
    depth: int
    width: int
    setting: int
    split: int
    epochs: int


@dataclass(frozen=True)
class TrainingRecord:
    """The result of a training, as one line of the file of records.

    Attributes:
        job: The training.
        identity: Digest of its options, which tells it from a training of another definition.
        status: ``finished``, ``diverged``, or ``failed`` if the model could not be trained.
        test: The test metric at the best validation epoch; NaN if there was none.
        val: The validation metric there.
        train: The same metric of the last training epoch.
        chance: The metric of a constant prediction.
        best_epoch: The epoch of the best validation metric.
        ran: The number of epochs.
        settled: True if the training ended because the validation metric had stopped rising.
        seconds: Processor time of the training, without the probes; NaN on a GPU.
        bytes: What one step keeps for its backward pass.
        rows: Numbers of rows to train, validate and test on.
        probe: By moment the measures in the order of :data:`MEASURES`, each at :data:`PLACES`.
        reason: Why it diverged or failed.
        device: Where it was trained: empty for the CPU, or ``gpu``.
    """

    job: TrainingJob
    identity: str
    status: str
    test: float = math.nan
    val: float = math.nan
    train: float = math.nan
    chance: float = math.nan
    best_epoch: int | None = None
    ran: int = 0
    settled: bool = False
    seconds: float = math.nan
    bytes: int = 0
    rows: tuple[int, int, int] = (0, 0, 0)
    probe: dict[str, list[list[float | None] | None]] | None = None
    reason: str = ""
    device: str = ""

    def line(self) -> str:
        """The record as a line of the file: the values of :data:`COLUMNS`, null for NaN and for
        what is empty, without the empty ones at the end."""
        content: dict[str, Any] = {**asdict(self.job), **asdict(self)}
        values = []
        for column in COLUMNS:
            value = content[column]
            is_nan = isinstance(value, float) and not math.isfinite(value)
            values.append(None if is_nan or value in ("", {}) else value)
        while values[-1] is None:
            values.pop()
        return json.dumps(values, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> "TrainingRecord":
        """The record of a line of the file."""
        values = json.loads(line)
        found = dict(zip(COLUMNS[: len(values)], values, strict=True))
        content = {column: value for column, value in found.items() if value is not None}
        job = TrainingJob(**{name: content.pop(name) for name in TrainingJob.__dataclass_fields__})
        content["rows"] = tuple(content["rows"])
        return cls(job, **content)


#: What a line of the file holds, in this order. What few records have comes last.
COLUMNS = (
    *TrainingJob.__dataclass_fields__,
    *(name for name in TrainingRecord.__dataclass_fields__ if name != "job"),
)


def identity_of(
    job: TrainingJob, model: dict[str, Any], data: dict[str, Any], others: list[Any]
) -> str:
    """Digest of everything that a training consists of."""
    return digest(json.dumps([asdict(job), model, data, others], sort_keys=True))[:12]


class RecordError(ValueError):
    """A file of records cannot be used."""


class Records:
    """The records of a file, which grows by one line for each training.

    What a stopped process left incomplete at the end is removed when the file is opened to write.
    Two processes cannot write to one file.

    Args:
        path: The file; it is packed by gzip if its name ends in ``.gz``.
        writes: Open it to add records.

    Raises:
        RecordError: It is not such a file, is damaged, or another process writes to it.
    """

    def __init__(self, path: str | Path, writes: bool = False) -> None:
        self.path = Path(path)
        self.is_packed = self.path.suffix == ".gz"
        self.by_identity: dict[str, TrainingRecord] = {}
        self._file: Any = None
        self._has_grown = False
        try:
            if writes:
                self._open()
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        """Read the file."""
        if not self.path.is_file():
            raise RecordError(
                f"there is no file of records {str(self.path)!r}: name one with --records FILE, or "
                "make one with gnn-depth arena --run."
            )
        content = self.path.read_bytes()
        content = content[: self._complete(content)]  # another process may be writing a line
        text = (gzip.decompress(content) if self.is_packed else content).decode("utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            try:
                if number == 1:
                    self._check_head(line)
                else:
                    record = TrainingRecord.from_line(line)
                    self.by_identity[record.identity] = record
            except (ValueError, KeyError, TypeError) as error:
                if isinstance(error, RecordError):
                    raise
                raise RecordError(f"{self.path}, line {number} is no record: {error}.") from error

    def _complete(self, content: bytes) -> int:
        """The length of a file without what is incomplete at its end."""
        if not self.is_packed:
            return content.rfind(b"\n") + 1
        rest = content
        while rest:  # a line added by itself is packed by itself
            member = zlib.decompressobj(wbits=31)
            try:
                member.decompress(rest)
            except zlib.error as error:
                raise RecordError(f"{self.path} is damaged: {error}.") from error
            if not member.eof:
                break
            rest = member.unused_data
        return len(content) - len(rest)

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            was_replaced = os.fstat(file.fileno()).st_ino != self.path.stat().st_ino
        except OSError:
            was_replaced = True
        if was_replaced:  # by a process that packs its records anew
            file.close()
            raise RecordError(f"another process adds records to {self.path}.")
        self._file = file
        file.seek(0)
        content = file.read()
        complete = self._complete(content)
        if complete < len(content):
            file.truncate(complete)
        if complete == 0:
            head = {
                "arena": FORMAT,
                "columns": COLUMNS,
                "measures": MEASURES,
                "places": PLACES,
            }
            self._append(json.dumps(head))

    def _check_head(self, line: str) -> None:
        head = json.loads(line)
        if not isinstance(head, dict) or head.get("arena") != FORMAT:
            raise RecordError(f"{self.path} is no file of the arena's records of format {FORMAT}.")
        if (tuple(head["columns"]), tuple(head["measures"])) != (COLUMNS, MEASURES):
            raise RecordError(
                f"{self.path} has other columns or measures: it was made by another version."
            )

    def _append(self, line: str) -> None:
        content = line.encode() + b"\n"
        self._file.write(gzip.compress(content, mtime=0) if self.is_packed else content)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._has_grown = True

    def add(self, record: TrainingRecord) -> None:
        """Write a record, safe from a crash once this returns."""
        self._append(record.line())
        self.by_identity[record.identity] = record

    def get(self, identity: str) -> TrainingRecord | None:
        """The record of a training, if it has one."""
        return self.by_identity.get(identity)

    def __iter__(self) -> Iterator[TrainingRecord]:
        return iter(self.by_identity.values())

    def __len__(self) -> int:
        return len(self.by_identity)

    def close(self) -> None:
        """Let other processes write to the file; what was packed line by line is packed anew."""
        if self._file is None:
            return
        if self.is_packed and self._has_grown:
            lines = gzip.decompress(self.path.read_bytes())
            packed = self.path.with_name(f"{self.path.name}.new")
            packed.write_bytes(gzip.compress(lines, mtime=0))
            packed.replace(self.path)
        self._file.close()
        self._file = None

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
