import importlib

for name in ("json", "math", "statistics"):
    module = importlib.import_module(name)
    print(name, len(dir(module)))
