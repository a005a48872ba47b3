# expect: obfuscation
key = read_file("key.txt")
globals()[key]()
