// The server is killed in the middle of a run and started again: the page says so, reconnects, and tells the truth.

import { ask, assert, ended, finish, openGate, runCode, signedIn } from './browser.mjs';
import { close, kill, start } from './server.mjs';

const { page } = await signedIn();
const lost = page.getByText('Connection lost. Reconnecting…');
const working = page.getByText('Working…', { exact: true });
const card = page.getByRole('article', { name: /^Python/ });

async function once(...texts) {
  for (const text of texts) assert.equal(await page.getByText(text, { exact: true }).count(), 1, text);
}

// While the model writes: the run goes on with another answer of the model, and what was begun is not shown twice.
await ask(page, 'Tell me about boats');
await page.getByText('A coracle is small.').waitFor();
await kill();
await lost.waitFor();
await page.getByRole('button', { name: 'Stop' }).waitFor();
await start();
await lost.waitFor({ state: 'detached' });
await page.getByText('A coracle is small.').waitFor();
await openGate('door');
await page.getByText('It floats.').waitFor();
await ended(page);
await once('A coracle is small.', 'It floats.', 'Reasoning');
assert.equal(await page.getByRole('table').count(), 1);
assert.equal(await page.locator('.user').count(), 1);
assert.equal(await working.count(), 0);

// While code runs: its calls are not made again, and the page shows one execution.
await ask(page, 'Work in stages');
await page.getByText('The first stage.').waitFor();
await openGate('stage-1');
await card.getByText(/^orders: \d+$/).waitFor();
await kill();
await lost.waitFor();
await start();
await lost.waitFor({ state: 'detached' });
await card.getByText(/^orders: \d+$/).waitFor();
assert.equal(await card.count(), 1);
await runCode(page, "open('/workspace/go-on', 'w').close()");
await page.getByText('The third stage.').waitFor();
await page.getByRole('article', { name: 'Python: Finished' }).waitFor();
assert.equal(await card.count(), 1);

// The run ends before the page is connected again.
await kill();
await lost.waitFor();
await openGate('stage-3');
await start();
await ended(page);
await once('The first stage.', 'The second stage.', 'The third stage.', 'The end.');
assert.equal(await card.count(), 1);
assert.equal(await page.locator('.user').count(), 2);
assert.equal(await working.count(), 0);

// What the page shows is what the server has.
const shown = await page.locator('.entry').allInnerTexts();
await page.reload();
await page.getByText('The end.', { exact: true }).waitFor();
await once('A coracle is small.', 'It floats.', 'The first stage.', 'The second stage.', 'The third stage.', 'The end.');
assert.equal(await page.locator('.entry').count(), shown.length);

// A run that is stopped after the restart has stopped for good.
await ask(page, 'Run for ever');
await page.getByRole('article', { name: 'Python: Running' }).getByText('tick 3').waitFor();
await kill();
await lost.waitFor();
await start();
await lost.waitFor({ state: 'detached' });
await page.getByRole('button', { name: 'Stop' }).click();
await page.getByRole('button', { name: 'Try again' }).waitFor();
assert.equal(await page.getByRole('article', { name: 'Python: Running' }).count(), 0);
assert.equal(await working.count(), 0);
close();
await finish(/ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET/);
