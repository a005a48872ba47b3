"""Does with each record what code does with data: prints, raises, encodes, writes, and passes it on."""

import base64
import json
import os
import sys
import traceback
import urllib.parse
import warnings

from servers.people import echo, fail, narrow, records, store


def leaves(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value


def attempt(action):
    try:
        return action()
    except Exception as error:
        print(type(error).__name__, error)
        return None


found = records(batch=BATCH, form="structured")["records"]
kept = []
store(value={"batch": BATCH, "records": found, "attached": base64.b64encode(json.dumps(found).encode()).decode()})
for number, record in enumerate(found):
    act, text, values = (number + FIRST) % 18, json.dumps(record), list(leaves(record))
    if act == 0:
        print(text)
    elif act == 1:
        print(record)
    elif act == 2:
        print(base64.b64encode(text.encode()).decode())
        print([base64.b64encode(value.encode()).decode() for value in values])
    elif act == 3:
        print(text.encode().hex(), *[value.encode().hex().upper() for value in values])
    elif act == 4:
        print(urllib.parse.urlencode({"q": values}, doseq=True), *map(urllib.parse.quote, values))
    elif act == 5:
        print("failed for", *values, sep="\t", file=sys.stderr)
    elif act == 6:
        try:
            raise ValueError(record)
        except ValueError:
            traceback.print_exc()
    elif act == 7:
        with open(f"/workspace/{BATCH}-{number}.json", "w") as file:
            json.dump(record, file, ensure_ascii=False)
    elif act == 8:
        for place, value in enumerate(values):
            name = value.replace("/", " ").replace("\n", " ")[:200]
            with open(f"/artifacts/{name}.{place}.txt", "w") as file:
                file.write(f"about {value}\n{text}")
    elif act == 9:
        print(attempt(lambda: echo(value=record)))
    elif act == 10:
        attempt(lambda: narrow(value=text))
        attempt(lambda: narrow(value=record))
    elif act == 11:
        attempt(lambda: fail(value=record))
    elif act == 12:
        print(json.dumps(json.dumps(text)))
    elif act == 13:
        kept.append(record)
    elif act == 14:
        for value in values:
            warnings.warn(value)
    elif act == 15:
        print(*[base64.urlsafe_b64encode(f"x{value}".encode()).decode() for value in values])
    elif act == 16:
        for piece in [text[place : place + 3] for place in range(0, len(text), 3)]:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
    elif act == 17:
        print(*[value.upper() for value in values], *[value.lower() for value in values], sep=" | ")
for form in ("text", "lines", "blob", "error", "refused"):
    print(form, attempt(lambda: records(batch=BATCH, form=form, first=FIRST % 3, count=4)))
if FIRST % 2:
    raise RuntimeError(json.dumps(found[-3:]))
result = {"kept": kept, "keys": {json.dumps(one): one for one in kept[:2]}}
