# expect: obfuscation
import os

function = read_file("function.txt").strip()
getattr(os, function)("id")
