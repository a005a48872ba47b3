# expect: import
from cffi import FFI

ffi = FFI()
ffi.cdef("int setuid(unsigned int);")
ffi.dlopen(None).setuid(0)
