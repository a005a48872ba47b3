import zlib

text = b"abc" * 1000
packed = zlib.compress(text, 9)
assert zlib.decompress(packed) == text
print(len(packed))
