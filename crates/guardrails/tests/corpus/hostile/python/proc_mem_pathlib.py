# expect: system-file
from pathlib import Path

data = (Path("/proc") / "self" / "mem").open("rb")
print(data)
