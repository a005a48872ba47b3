import hashlib
from pathlib import Path

for path in sorted(Path("downloads").glob("*")):
    print(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
