// Uses the agent with the official client for Node.

import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "lab/demo";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const chatTools = [{ type: "function", function: { name: "get_weather", parameters } }];
const tools = [{ type: "function", name: "get_weather", parameters, strict: false }];
const weather = ({ city }) => `sunny in ${city}`;

// The server's own tools, as chat completions.
{
  const messages = [{ role: "user", content: "compute" }];
  const answer = await client.chat.completions.create({ model, messages });
  assert.match(answer.choices[0].message.content, /^I compute it\.\s+It is .*42/);
  const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
  assert.equal(await stream.finalContent(), answer.choices[0].message.content);
  assert.ok((await stream.totalUsage()).total_tokens > 0);
}

// The client's own tools, with the helper that runs them, and mixed with the server's.
for (const [marker, expected] of [["weather", "It is sunny in Rome."], ["two", "Both: sunny in Oslo."], ["both", /^It is sunny, and .*42/]]) {
  for (const stream of [false, true]) {
    const runner = client.chat.completions.runTools({
      model,
      stream,
      messages: [{ role: "user", content: `[script:${marker}]` }],
      tools: [{ type: "function", function: { name: "get_weather", parameters, parse: JSON.parse, function: weather } }],
    });
    const said = await runner.finalContent();
    typeof expected === "string" ? assert.equal(said, expected) : assert.match(said, expected);
  }
}
{
  const first = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "[script:weather]" }],
    tools: chatTools,
    tool_choice: { type: "function", function: { name: "get_weather" } },
  });
  assert.equal(first.choices[0].finish_reason, "tool_calls");
}

// The same as responses.
{
  const answer = await client.responses.create({ model, input: "compute" });
  assert.deepEqual(answer.output.map((item) => item.type), ["message", "code_interpreter_call", "message"]);
  const stream = client.responses.stream({ model, input: "compute" });
  const seen = [];
  for await (const event of stream) seen.push(event.type);
  assert.ok(seen.includes("response.code_interpreter_call_code.done"), seen.join());
  assert.equal((await stream.finalResponse()).output_text, answer.output_text);
}
for (const [marker, expected] of [["weather", "It is sunny in Rome."], ["two", "Both: sunny in Oslo."], ["both", /It is sunny, and .*42/]]) {
  for (const stream of [false, true]) {
    const ask = async (more) => {
      const body = { model, tools, ...more };
      return stream ? client.responses.stream(body).finalResponse() : client.responses.create(body);
    };
    const first = await ask({ input: `[script:${marker}]` });
    const calls = first.output.filter((item) => item.type === "function_call");
    assert.ok(calls.length > 0);
    const results = calls.map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: weather(JSON.parse(call.arguments)),
    }));
    const second = await ask({ input: results, previous_response_id: first.id });
    typeof expected === "string" ? assert.equal(second.output_text, expected) : assert.match(second.output_text, expected);
  }
}

// Errors, lists, conversations and runs in the background.
await assert.rejects(client.responses.create({ model, input: "" }), OpenAI.BadRequestError);
await assert.rejects(client.responses.retrieve("resp_unknown"), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
const models = [];
for await (const one of client.models.list()) models.push(one.id);
const conversation = await client.conversations.create({});
await client.responses.create({ model, input: "compute", conversation: conversation.id });
const items = [];
for await (const item of client.conversations.items.list(conversation.id, { order: "asc" })) items.push(item.type);
assert.deepEqual(items, ["message", "message", "code_interpreter_call", "message"]);
const begun = await client.responses.create({ model, input: "compute", background: true });
const kinds = [];
for await (const event of await client.responses.retrieve(begun.id, { stream: true })) kinds.push(event.type);
assert.equal(kinds.at(-1), "response.completed");
