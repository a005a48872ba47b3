"""Uses the agent with the Agents SDK."""

import asyncio
import sys

from agents import (
    Agent,
    CodeInterpreterTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ShellTool,
    function_tool,
)
from openai import AsyncOpenAI

BASE, KEY = sys.argv[1:]
CLIENT = AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0)
MODELS = {
    "chat": OpenAIChatCompletionsModel(model="lab/demo", openai_client=CLIENT),
    "responses": OpenAIResponsesModel(model="lab/demo", openai_client=CLIENT),
}


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def whole(agent, text):
    return (await Runner.run(agent, text)).final_output


async def streamed(agent, text):
    result = Runner.run_streamed(agent, text)
    kinds = {event.type async for event in result.stream_events()}
    assert "raw_response_event" in kinds, kinds
    return result.final_output


async def main():
    for api, model in MODELS.items():
        plain = Agent(name="plain", model=model)
        agent = Agent(name="agent", model=model, tools=[get_weather], model_settings=ModelSettings(include_usage=True))
        for run in [whole, streamed]:
            said = await run(plain, "compute")
            assert "42" in said, (api, said)
            assert await run(plain, "[script:shell]") == "Done."
            assert await run(plain, "[script:search]") == "Done."
            assert await run(agent, "[script:weather]") == "It is sunny in Rome."
            assert await run(agent, "[script:two]") == "Both: sunny in Oslo."
            said = await run(agent, "[script:both]")
            assert said.startswith("It is sunny, and") and "42" in said, (api, said)
    # The tools of the server can be named as those of OpenAI are, and conversations continue.
    interpreter = CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})
    shell = ShellTool(environment={"type": "container_auto"})
    agent = Agent(name="agent", model=MODELS["responses"], tools=[interpreter, shell, get_weather])
    assert (await Runner.run(agent, "[script:shell]")).final_output == "Done."
    first = await Runner.run(agent, "compute")
    assert "tool_call_item" in [item.type for item in first.new_items], first.new_items
    again = [*first.to_input_list(), {"role": "user", "content": "[script:weather]"}]
    assert (await Runner.run(agent, again)).final_output == "It is sunny in Rome."
    after = await Runner.run(agent, "[script:weather]", previous_response_id=first.last_response_id)
    assert after.final_output == "It is sunny in Rome."


asyncio.run(main())
