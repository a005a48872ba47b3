// Messages that are written while a run is under way: queued for later, or sent to the run.

import { ask, assert, base, checked, ended, finish, openGate, signedIn, texts, watched } from './browser.mjs';

const { browser, context, page } = await signedIn();
const message = page.getByRole('textbox', { name: 'Message', exact: true });
const queue = page.getByRole('region', { name: 'Queue' });
const queued = () => queue.locator('.text').allInnerTexts();
/** Waits until the messages are in this order. */
const ordered = async (words) => {
  const wanted = JSON.stringify(words.map((word) => `[script:echo] ${word}`));
  while (JSON.stringify(await queued()) !== wanted) await page.waitForTimeout(20);
};
const mine = () => texts(page.locator('.user:not(.waiting) > p:first-of-type'));
const answer = (text) => page.locator('.answer', { hasText: text });

// Enter queues while the run is under way.
await ask(page, 'Work in steps');
await page.getByText('I begin.').waitFor();
for (const text of ['one', 'two', 'three', 'four']) {
  await ask(page, `[script:echo] ${text}`);
  await queue.getByText(`[script:echo] ${text}`).waitFor();
}
assert.equal(await message.inputValue(), '');
assert.deepEqual(await mine(), ['Work in steps']);

// The list can be changed by keyboard alone.
await queue.getByRole('listitem').nth(2).getByRole('button', { name: 'Move up' }).focus();
await page.keyboard.press('Enter');
await ordered(['one', 'three', 'two', 'four']);
await page.keyboard.press('Enter');
await ordered(['three', 'one', 'two', 'four']);
const actions = (text) => queue.getByRole('listitem').filter({ hasText: text });
assert.deepEqual(await queued(), ['[script:echo] three', '[script:echo] one', '[script:echo] two', '[script:echo] four']);
await actions('two').getByRole('button', { name: 'Edit queued message' }).press('Enter');
await queue.getByRole('textbox', { name: 'Queued message' }).fill('[script:echo] second');
await page.keyboard.press('Enter');
await actions('second').waitFor();
await actions('four').getByRole('button', { name: 'Remove from the queue' }).press('Enter');
await actions('four').waitFor({ state: 'detached' });
const wanted = ['[script:echo] three', '[script:echo] one', '[script:echo] second'];
assert.deepEqual(await queued(), wanted);
assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Remove from the queue');
await message.fill('A message that is being written');
await checked(page, 'queue');
await actions('second').getByRole('button', { name: 'Edit queued message' }).click();
await checked(page, 'queue-edit');
await page.keyboard.press('Escape');
await actions('second').getByRole('button', { name: 'Edit queued message' }).waitFor();
await message.fill('');

// It survives a reload, and another tab shows the same list.
await page.reload();
await page.getByText('I begin.').waitFor();
assert.deepEqual(await queued(), wanted);
const other = await watched(context);
await other.goto(page.url());
await other.getByRole('region', { name: 'Queue' }).getByText('[script:echo] second').waitFor();

// Ctrl+Enter sends a message to the run, which gets it at its next step.
await message.fill('Be brief');
await page.keyboard.press('Control+Enter');
await page.getByText('The agent reads this at its next step.').waitFor();
assert.deepEqual(await queued(), wanted);
await checked(page, 'steer');
await openGate('steps');
await answer('I have heard: Be brief').waitFor();
await page.getByText('The agent reads this at its next step.').waitFor({ state: 'detached' });

// The server sends the rest one by one, in order and once, although two tabs are open.
for (const text of wanted) await answer(text).waitFor();
await queue.waitFor({ state: 'detached' });
await ended(page);
assert.deepEqual(await mine(), ['Work in steps', 'Be brief', ...wanted]);
await page.reload();
await ended(page);
assert.deepEqual(await mine(), ['Work in steps', 'Be brief', ...wanted]);
await other.close();

// A queued message can also be sent to the run; a run that is stopped keeps it in the conversation.
await ask(page, 'Run for ever');
await page.getByRole('article', { name: 'Python: Running' }).getByText('tick 3').waitFor();
await ask(page, '[script:echo] steered');
await queue.getByRole('button', { name: 'Steer: send to the run now' }).click();
await page.getByText('The agent reads this at its next step.').waitFor();
await queue.waitFor({ state: 'detached' });

// After Stop, the queue waits until it is sent by hand, even if another run ends meanwhile.
await ask(page, '[script:echo] later');
await page.getByRole('button', { name: 'Stop' }).click();
await page.getByRole('button', { name: 'Try again' }).waitFor();
assert.equal((await mine()).at(-1), '[script:echo] steered');
await queue.getByText('Paused').waitFor();
await checked(page, 'paused');
await ask(page, '[script:echo] instead');
await answer('instead').waitFor();
await ended(page);
assert.deepEqual(await queued(), ['[script:echo] later']);
await page.reload();
await ended(page);
await queue.getByText('Paused').waitFor();
await queue.getByRole('button', { name: 'Send now' }).click();
await answer('later').waitFor();
await ended(page);
assert.equal(await queue.count(), 0);

// The queue is sent although no page is open, and another device shows the same.
await page.goto(`${base}/#/`);
await page.getByText('What shall we do?').waitFor();
await ask(page, 'Wait for the gate');
await page.getByText('I wait.').waitFor();
await ask(page, '[script:echo] from afar');
await queue.waitFor();
const address = page.url();
const device = await browser.newContext({ storageState: await context.storageState() });
device.setDefaultTimeout(120_000);
const elsewhere = await watched(device);
await elsewhere.goto(address);
await elsewhere.getByRole('region', { name: 'Queue' }).getByText('[script:echo] from afar').waitFor();
await elsewhere.close();
// A page that shows nothing of the conversation.
await page.goto(`${base}/#/settings`);
await page.getByRole('heading', { name: 'Settings' }).waitFor();
await openGate('afar');
await page.waitForFunction(async (id) => {
  const { runs } = await (await fetch(`/api/conversations/${id}/runs`)).json();
  return runs.length === 2 && runs.every((run) => run.state === 'completed');
}, address.split('/').at(-1));
await page.goto(address);
await answer('from afar').waitFor();
await ended(page);
assert.deepEqual(await mine(), ['Wait for the gate', '[script:echo] from afar']);
await finish();
