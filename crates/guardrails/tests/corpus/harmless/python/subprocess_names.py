import subprocess

def describe(error):
    if isinstance(error, subprocess.CalledProcessError):
        return "the command failed"
    return str(error)

print(describe(ValueError("no command")), subprocess.PIPE)
