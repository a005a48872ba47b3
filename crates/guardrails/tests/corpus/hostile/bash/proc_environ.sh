# expect: system-file
cat /proc/1/environ | tr '\0' '\n'
