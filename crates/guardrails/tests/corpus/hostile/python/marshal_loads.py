# expect: obfuscation
import marshal

code = marshal.loads(b"\xe3\x00\x00\x00")
print(code)
