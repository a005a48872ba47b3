"""Approves and refuses calls with the official client, and validates what it gets against the client's types."""

import json
import sys

from openai import OpenAI
from openai.types.responses import Response
from openai.types.responses.response_output_item import McpApprovalRequest

BASE, KEY = sys.argv[1:]
CLIENT = OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MODEL = "lab/demo"


def question(response):
    """The question that a response ends with."""
    item = response.output[-1]
    assert isinstance(item, McpApprovalRequest), item
    McpApprovalRequest.model_validate(item.model_dump())
    Response.model_validate(response.model_dump())
    assert (item.server_label, item.name, json.loads(item.arguments)) == ("plain", "wipe", {"what": "all"}), item
    return item


def answer(item, approve):
    return {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": approve}


for approve, text in [(True, "It says x"), (False, "It says ")]:
    first = CLIENT.responses.create(model=MODEL, input="Wipe.")
    second = CLIENT.responses.create(
        model=MODEL, input=[answer(question(first), approve)], previous_response_id=first.id
    )
    assert second.output_text.startswith(text), second
    assert [item.type for item in CLIENT.responses.input_items.list(second.id)] == ["mcp_approval_response"]

first = CLIENT.responses.create(model=MODEL, input="Wipe.", stream=True)
last = [event for event in first][-1].response
second = CLIENT.responses.create(
    model=MODEL, input=[answer(question(last), True)], previous_response_id=last.id, stream=True
)
kinds = [event.type for event in second]
assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
assert "response.code_interpreter_call.completed" in kinds, kinds
print("ok")
