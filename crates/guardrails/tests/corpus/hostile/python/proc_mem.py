# expect: system-file
import os

pid = os.getppid()
with open(f"/proc/{pid}/mem", "rb") as memory:
    memory.seek(0x400000)
    print(memory.read(64))
