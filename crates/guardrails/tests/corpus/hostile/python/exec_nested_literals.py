# expect: call
exec("exec(\"import subprocess; subprocess.run(['id'])\")")
