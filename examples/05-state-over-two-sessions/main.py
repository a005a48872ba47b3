"""Continue work in another session: variables end with the session, files in /workspace are kept."""

import json
import os

from servers.files import read_text_file

STATE = "state/invoices.json"
A_DAY = 2

state = {"next": 1, "total": 0, "sessions": 0}
if os.path.exists(STATE):
    state = json.loads(read_file(STATE))

state["sessions"] += 1
for number in range(state["next"], min(state["next"] + A_DAY, 5)):
    invoice = json.loads(read_text_file(path=f"invoice-{number}.json")["content"])
    state["total"] += invoice["total"]
    state["next"] = number + 1

write_file(STATE, json.dumps(state))
print(f"session {state['sessions']}: invoices up to {state['next'] - 1}, {state['total']} in all")
result = "done" if state["next"] > 4 else "to be continued"
