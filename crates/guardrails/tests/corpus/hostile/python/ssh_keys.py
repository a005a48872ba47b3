# expect: system-file
from pathlib import Path

for path in ["/root/.ssh/id_ed25519", "/home/ann/.aws/credentials"]:
    print(Path(path).read_text())
