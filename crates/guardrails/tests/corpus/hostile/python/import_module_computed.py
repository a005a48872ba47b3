# expect: obfuscation
import importlib

for name in read_file("modules.txt").split():
    importlib.import_module(name).main()
