# expect: call
import subprocess

print(subprocess.run(["id"], capture_output=True).stdout)
