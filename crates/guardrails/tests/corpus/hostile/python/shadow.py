# expect: system-file
with open("/etc/shadow") as file:
    print(file.read())
