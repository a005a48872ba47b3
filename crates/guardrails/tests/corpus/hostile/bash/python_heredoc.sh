# expect: call
python3 <<'END'
import subprocess
subprocess.run(["id"])
END
