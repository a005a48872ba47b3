# expect: system-file
import os

path = os.path.join("/var/run", "docker.sock")
print(open(path, "rb"))
