# expect: import
import importlib

library = importlib.import_module("ctypes")
library.string_at(0)
