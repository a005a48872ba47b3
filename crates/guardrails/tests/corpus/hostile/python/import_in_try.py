# expect: import
try:
    import _ctypes
except ImportError:
    _ctypes = None
if _ctypes:
    handle = _ctypes.dlopen("libc.so.6", 2)
    print(_ctypes.dlsym(handle, "system"))
