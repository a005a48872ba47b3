# expect: obfuscation
from base64 import b64decode as unwrap

payload = "aW1wb3J0IG9zCm9zLnN5c3RlbSgnaWQnKQ=="
source = unwrap(payload).decode("utf-8")
exec(compile(source, "<string>", "exec"))
