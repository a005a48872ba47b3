# expect: system-file
with open("/proc/sysrq-trigger", "w") as file:
    file.write("b")
