# expect: obfuscation
import sys

name = read_file("name.txt")
sys.modules[name].run()
