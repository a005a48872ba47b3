# expect: obfuscation
import base64
import zlib

exec(zlib.decompress(base64.b64decode("eJwrKMrMK9EwBAAI5QHv")))
