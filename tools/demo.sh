#!/bin/sh
# Four networks on a generated graph: what fails with depth, why, and what helps. About a minute, no download.
folder="runs/demo/$(date +%Y-%m-%d_%H-%M-%S)"
deep="--config expansion/res_gcn --config demo --model.num_layers 32"
set -e

show() { # a text and a command, and what the command prints
    printf '\n%s\n$ gnn-depth %s\n' "$1" "$2"
    gnn-depth $2 2>&1
}

train() { # a text, the name of the run and its options; what the training prints, in short
    words="fit $3 --run.root $folder --run.name $2"
    printf '\n%s\n$ gnn-depth %s\n' "$1" "$words"
    gnn-depth $words 2>&1 | grep -E '^(test accuracy|warning|gradients|error)'
}

train "A residual GCN with 4 layers" shallow "--config expansion/res_gcn --config demo --model.num_layers 4"
train "The same with 32 layers" deep "$deep"
train "32 layers whose weights are bounded" bounded "$deep --model.norm spectral --model.norm.per_depth 8"
train "A GAT with 30 layers and LipschitzNorm" gat_lip_30 "--config gat_lip_30 --config demo"
show "What one pass through the deep network shows before any training:" "probe $deep"
show "All four:" "table $folder --rows name"
show "The gradient of every layer in every step, as a picture:" \
    "plot heatmap $folder --measure gradient_norm_hidden --panel name --output $folder/gradients.png"
printf '\nCurves: tensorboard --logdir %s\nTry your own remedy: gnn-depth fit %s --model.norm pair\n' "$folder" "$deep"
