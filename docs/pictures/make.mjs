// Makes the pictures of the book and of the README. See docs/page.md.
//
//   CORACLE_PAGE_MODULES=…/node_modules node docs/pictures/make.mjs PATH/TO/coracle [FOLDER WITH A BUILT PAGE]

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { servePage } from '../../bench/page/folder.mjs';
import { call, startServer } from '../../bench/page/server.mjs';

const [program, page] = process.argv.slice(2);
const { CORACLE_PAGE_MODULES: modules, CORACLE_PAGE_BROWSER: executablePath = '/usr/bin/chromium' } = process.env;
const { chromium } = createRequire(`${modules}/`)('playwright-core');

/** Maximum size of a picture in bytes. */
const MAX_BYTES = 80_000;
const TALL = { width: 1200, height: 1110 };
const WIDE = { width: 1200, height: 720 };

const QUESTION = 'Draw our orders by month';
/** A module in the workspace, as a user may have one. */
const CHARTS = `
def bars(path, values):
    most, drawn = max(values.values()), ""
    for i, (name, value) in enumerate(sorted(values.items())):
        height = 110 * value / most
        drawn += (f'<rect x="{24 + 90 * i}" y="{130 - height}" width="62" height="{height}" rx="4" fill="#14788f"/>'
                  f'<text x="{55 + 90 * i}" y="150" font-size="13" text-anchor="middle" fill="#55626a">{name}</text>')
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{20 + 90 * len(values)}" height="165" '
                   f'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>{drawn}</svg>')
`;
const CODE = `from collections import Counter
from charts import bars
from servers.shop import list_orders

months = Counter()
for order in list_orders()["orders"]:
    months[order["date"][:7]] += order["total"]
for month, total in sorted(months.items()):
    print(f"{month}  {total:>6,}")
bars("/artifacts/orders.svg", months)
`;
const ANSWER = 'The chart is in `orders.svg`. The code read all orders, but **only its output** went to the model: ' +
  'the orders themselves stayed in the sandbox.';

/** A model that calls the code first, and then answers. */
async function startModel() {
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    if (request.method !== 'POST') return response.end(JSON.stringify({ object: 'list', data: [{ id: 'demo', object: 'model' }] }));
    const isFirst = JSON.parse(text).messages.at(-1).role === 'user';
    const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'execute_code', arguments: JSON.stringify({ code: CODE }) } };
    const delta = isFirst ? { content: 'I add up the orders of each month.', tool_calls: [call] } : { content: ANSWER };
    const chunk = (choice, usage) => `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'demo', choices: choice, usage })}\n\n`;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk([{ index: 0, delta, finish_reason: null }]));
    response.write(chunk([{ index: 0, delta: {}, finish_reason: isFirst ? 'tool_calls' : 'stop' }]));
    response.write(chunk([], { prompt_tokens: 1412, completion_tokens: 265, total_tokens: 1677 }));
    response.end('data: [DONE]\n\n');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close() };
}

async function makeAll(server) {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  try {
    const context = await browser.newContext({ viewport: TALL, reducedMotion: 'reduce', locale: 'en-GB' });
    context.setDefaultTimeout(60_000);
    const tab = await context.newPage();
    if (page) await servePage(context, tab, server.base, page);
    const devtools = await context.newCDPSession(tab);

    /** Writes the picture, as good as its size allows. */
    const make = async (name) => {
      await tab.mouse.move(0, 0);
      for (let quality = 90; ; quality -= 10) {
        const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality });
        const bytes = Buffer.from(data, 'base64');
        assert.ok(quality > 30, `${name} is too big`);
        if (bytes.length > MAX_BYTES) continue;
        writeFileSync(join(import.meta.dirname, `${name}.webp`), bytes);
        console.log(`${name}.webp: ${bytes.length} bytes, quality ${quality}`);
        return;
      }
    };

    await tab.goto(server.link);
    await tab.getByRole('button', { name: 'Sign in' }).click();
    const post = (path, body) => call(server, 'POST', path, body);
    for (const title of ['Compare the price lists', 'Summarise open issues']) await post('/api/conversations', { title });
    const { success } = await post('/api/executions', { code: `open('/workspace/charts.py', 'w').write(${JSON.stringify(CHARTS)})` });
    assert.ok(success);
    await tab.getByRole('textbox', { name: 'Message' }).fill(QUESTION);
    await tab.keyboard.press('Enter');
    await tab.getByText(/tokens in/).waitFor();
    const chart = tab.getByRole('img', { name: 'orders.svg' });
    await chart.waitFor();
    await chart.evaluate((image) => image.decode());
    await tab.getByText('Summarise open issues').waitFor();
    for (const colorScheme of ['light', 'dark']) {
      await tab.emulateMedia({ colorScheme });
      await make(`conversation-${colorScheme}`);
    }
    await tab.setViewportSize({ width: 390, height: 844 });
    await make('phone');
    await tab.setViewportSize(TALL);
    await tab.emulateMedia({ colorScheme: 'light' });
    await tab.goto(`${server.base}/#/tools/shop/list_orders`);
    await tab.getByRole('button', { name: 'Call the tool' }).click();
    await tab.getByText('24 of 24 rows').waitFor();
    await make('tools');
    await tab.setViewportSize(WIDE);
    await tab.goto(`${server.base}/#/files`);
    await tab.getByRole('link', { name: /orders\.svg/ }).first().click();
    await tab.getByRole('img', { name: /orders\.svg/ }).waitFor();
    await make('files');
  } finally {
    await browser.close();
  }
}

const model = await startModel();
const server = await startServer(program, {
  agent: { default_model: 'lab/demo', providers: { lab: { url: model.url, api: 'chat' } } },
  mcpServers: { shop: { command: program, args: ['mcp-demo', 'shop'] } },
});
try {
  await makeAll(server);
} finally {
  await server.stop();
  model.close();
}
