import struct

packed = struct.pack("<IHB", 305419896, 4660, 18)
print(packed.hex(), struct.unpack("<IHB", packed), bytes([104, 105]).decode(), chr(65))
