# expect: import
native = __import__("ctypes")
print(native.CDLL(None).getpid())
