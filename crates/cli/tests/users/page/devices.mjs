// Two devices: what is started on one appears on the other, without a reload.

import { ask, assert, base, ended, finish, openGate, signedIn, watched } from './browser.mjs';

const { browser, context, page } = await signedIn();
// Another device has the cookie, but shares nothing else with the first one.
const device = await browser.newContext({ storageState: await context.storageState() });
device.setDefaultTimeout(120_000);
const other = await watched(device);
await other.goto(`${base}/#/`);
await other.getByText('What shall we do?').waitFor();

// A conversation that begins on the first device appears in the list of the other one, with its run.
await ask(page, '[script:echo] hello');
await ended(page);
const list = other.getByRole('navigation', { name: 'Conversations' });
await list.getByRole('link', { name: '[script:echo] hello' }).click();
await other.locator('.answer', { hasText: 'hello' }).waitFor();

// A run in a conversation that both show is followed live by both.
await ask(page, 'Tell me about boats');
await page.getByText('A coracle is small.').waitFor();
await other.getByText('A coracle is small.').waitFor();
await other.getByRole('button', { name: 'Stop' }).waitFor();
assert.equal(await other.getByText('It floats.').count(), 0);
await openGate('door');
for (const one of [page, other]) {
  await one.getByText('It floats.').waitFor();
  await ended(one);
  assert.equal(await one.locator('.user').count(), 2);
  assert.equal(await one.getByText('A coracle is small.').count(), 1);
}

// And stopped by either.
await ask(other, 'Run for ever');
await page.getByRole('article', { name: 'Python: Running' }).getByText('tick 3').waitFor();
await page.getByRole('button', { name: 'Stop' }).click();
for (const one of [page, other]) await one.getByRole('button', { name: 'Try again', exact: true }).waitFor();
await finish();
