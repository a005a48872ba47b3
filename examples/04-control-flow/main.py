"""Loops, conditions and errors are those of the language: one program instead of a round trip for every decision."""

import json

from coracle import ToolError
from servers.files import read_text_file, write_file

ATTEMPTS = 3
settings = {}

for name in ("db", "web", "cache"):
    for attempt in range(1, ATTEMPTS + 1):
        try:
            settings[name] = json.loads(read_text_file(path=f"{name}.json")["content"])
            print(f"{name}: {settings[name]['replicas']} replicas")
        except ToolError as error:
            # The server could not; the same again is worth a try only if it says so.
            if error.retryable and attempt < ATTEMPTS:
                continue
            print(f"{name}: left out, {error.server}.{error.tool} failed ({error.code})")
        except json.JSONDecodeError:
            print(f"{name}: left out, its file is damaged")
        break

try:
    write_file(path="summary.txt", content=str(settings))
except ToolError as error:
    print(f"not written: {error.code}")

result = sorted(settings)
