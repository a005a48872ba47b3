# expect: import
import ctypes

libc = ctypes.CDLL(None)
libc.system(b"id > /workspace/id.txt")
