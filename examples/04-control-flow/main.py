"""Use the loops, conditions and errors of the language: one program instead of a round trip for every decision."""

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
            # The tool failed. A retry is only worthwhile if the error says so.
            if error.retryable and attempt < ATTEMPTS:
                continue
            print(f"{name}: skipped, {error.server}.{error.tool} failed ({error.code})")
        except json.JSONDecodeError:
            print(f"{name}: skipped, its file is damaged")
        break

try:
    write_file(path="summary.txt", content=str(settings))
except ToolError as error:
    print(f"not written: {error.code}")

result = sorted(settings)
