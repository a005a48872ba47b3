# expect: call
from subprocess import check_output as output

print(output(["cat", "/etc/hostname"]))
