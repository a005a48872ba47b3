# expect: obfuscation
name = read_file("module.txt").strip()
module = __import__(name)
module.run()
