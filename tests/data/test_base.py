import torch

from gnn_depth.data import SyntheticCitation


def test_a_batch_that_was_read_and_moved_in_inference_mode_can_be_trained_with():
    data = SyntheticCitation(
        num_nodes=60, num_edges=120, num_features=8, num_classes=3, num_train_per_class=5, num_val=10, num_test=10
    )
    with torch.inference_mode():
        read = data.batch
        moved = read.to("meta")
    assert moved.x.device.type == "meta"
    for batch in (read, moved):
        assert not any(part.is_inference() for part in (batch.x, batch.y, batch.graph.source, *batch.masks))
