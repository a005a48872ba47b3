// An MCP server over stdio whose tools have every kind of argument, and hostile texts.

import { createInterface } from 'node:readline';

const hostile = '<img src=x onerror=alert(1)><script>alert(1)</script>';
const fields = {
  text: { type: 'string', description: `Any text. ${hostile}` },
  number: { type: 'number' },
  size: { type: 'integer', minimum: 1, maximum: 9, default: 3 },
  isFast: { type: 'boolean' },
  colour: { enum: ['red', hostile, 7] },
  names: { type: 'array', items: { type: 'string' } },
  counts: { type: 'array', items: { type: 'integer' } },
  maybe: { anyOf: [{ type: 'string' }, { type: 'null' }] },
  place: { $ref: '#/$defs/place' },
  [hostile]: { type: 'string' },
};
const schema = {
  type: 'object',
  properties: fields,
  required: ['text'],
  $defs: { place: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } },
};
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const empty = { type: 'object', properties: {} };
const tools = {
  fill: { schema, answer: (given) => ({ content: [{ type: 'text', text: JSON.stringify(given) }] }) },
  fails: { schema: empty, answer: () => ({ isError: true, content: [{ type: 'text', text: `It broke. ${hostile}` }] }) },
  never: { schema: empty, answer: () => ({ content: [] }) },
  draws: {
    schema: empty,
    answer: () => ({
      content: [
        { type: 'text', text: hostile },
        { type: 'image', data: pixel, mimeType: 'image/png' },
        { type: 'image', data: 'PHN2Zy8+', mimeType: 'image/svg+xml' },
        { type: 'resource_link', uri: 'javascript:alert(1)', name: hostile },
      ],
    }),
  },
};

const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: hostile, version: '1' },
  }),
  ping: () => ({}),
  'tools/list': () => ({
    tools: Object.entries(tools).map(([name, tool]) => ({
      name,
      description: `${hostile} A tool that ${name}.`,
      inputSchema: tool.schema,
    })),
  }),
  'tools/call': (params) => tools[params.name].answer(params.arguments ?? {}),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const outcome = answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: 'unknown method' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...outcome })}\n`);
});
