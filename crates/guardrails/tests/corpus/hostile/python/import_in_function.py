# expect: import
def helper():
    from ctypes import cdll
    return cdll.LoadLibrary("libc.so.6")

helper().kill(1, 9)
