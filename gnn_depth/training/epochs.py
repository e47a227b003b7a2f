"""What an epoch of a trainer is made of."""

import lightning as L
from lightning.pytorch.trainer.states import TrainerFn

from gnn_depth.data.base import FullBatch


def trains_on_full_batch(trainer: L.Trainer) -> bool:
    """Whether an epoch is one step, on a batch that all processes have."""
    return trainer.num_training_batches == 1 and isinstance(trainer.train_dataloader, FullBatch)


def is_one_batch_an_epoch(trainer: L.Trainer) -> bool:
    """Whether a validation belongs to an epoch that trains on the full batch, and looks at one batch itself."""
    return (
        trainer.state.fn == TrainerFn.FITTING
        and not trainer.sanity_checking
        and trains_on_full_batch(trainer)
        and trainer.num_val_batches == [1]
    )
