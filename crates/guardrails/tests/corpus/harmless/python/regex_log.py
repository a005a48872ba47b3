import re
from collections import Counter

pattern = re.compile(r"(?P<level>ERROR|WARN) \[(?P<service>[\w-]+)\] (?P<message>.*)")
counts = Counter()
for line in open("app.log", encoding="utf-8"):
    if found := pattern.search(line):
        counts[found["service"], found["level"]] += 1
result = counts.most_common(5)
