import importlib.metadata

for package in ("numpy", "pandas"):
    try:
        print(package, importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        print(package, "is not installed")
