from pathlib import Path

sizes = {}
for path in Path(".").rglob("*"):
    if path.is_file() and not path.name.startswith("."):
        sizes[path.suffix] = sizes.get(path.suffix, 0) + path.stat().st_size
result = sizes
