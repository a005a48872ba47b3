"""Find a tool by what it does, then call it."""

from coracle import search_tools
from servers.time import convert_time

for tool in search_tools("convert a time to another time zone", limit=1):
    print("found:", tool["name"])

answer = convert_time(source_timezone="UTC", time="12:30", target_timezone="Asia/Tokyo")
print("12:30 in UTC is", answer["target"]["datetime"][11:16], "in Tokyo")

result = answer["time_difference"]
