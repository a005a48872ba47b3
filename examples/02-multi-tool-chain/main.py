"""Pass results from tool to tool without a model in between: file → time zones, in parallel → file."""

import asyncio
import json

from servers.files import read_text_file, write_file
from servers.time import convert_time

CALL_AT = "13:00"

offices = json.loads(read_text_file(path="offices.json")["content"])


async def local(office):
    answer = await convert_time.aio(source_timezone="UTC", time=CALL_AT, target_timezone=office["zone"])
    return f"{office['city']}: {answer['target']['datetime'][11:16]}"


async def main():
    return await asyncio.gather(*(local(office) for office in offices))


lines = asyncio.run(main())
write_file(path="invitation.txt", content="The call is at\n" + "\n".join(lines) + "\n")
print(read_text_file(path="invitation.txt")["content"], end="")
result = len(lines)
