import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "numbers.txt"
    path.write_text("1\n2\n3\n")
    print(sum(int(line) for line in path.read_text().split()))
