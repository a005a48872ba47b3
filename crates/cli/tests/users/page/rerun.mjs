// The code of a card: run again by the user, as it is and edited, and the whole of its output.

import { ask, assert, base, checked, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const card = page.getByRole('article', { name: 'Python: Finished' });
const field = card.getByRole('textbox', { name: 'Code to run' });
const result = card.locator('.result');

await ask(page, 'Count the orders');
await ended(page);
const items = async () => {
  const id = page.url().split('/c/')[1];
  const found = await page.evaluate((one) => fetch(`/v1/conversations/${one}/items`).then((answer) => answer.json()), id);
  return found.data.length;
};
const before = await items();

// By keyboard: the code is there, runs as it is, and then edited. The conversation stays as it was.
await card.getByRole('button', { name: 'Edit and run' }).press('Enter');
assert.match(await field.inputValue(), /^from servers\.shop import list_orders/);
assert.equal(await field.evaluate((area) => area === document.activeElement), true);
await page.keyboard.press('Control+Enter');
await result.getByText('Your run: finished').waitFor();
await result.getByText('shop.list_orders').waitFor();
await result.getByText('24', { exact: true }).waitFor();
await field.fill("print('edited', 6 * 7)\nopen('/artifacts/edited.txt', 'w').write('x')");
await card.getByRole('button', { name: 'Run', exact: true }).click();
await result.getByText('edited 42').waitFor();
await result.getByRole('link', { name: 'Download edited.txt' }).waitFor();
await checked(page, 'rerun');
await field.fill("raise ValueError('no such boat')");
await field.press('Control+Enter');
await result.getByText('Your run: failed').waitFor();
await result.getByText('no such boat').first().waitFor();

// Code that calls a tool which needs an approval waits for it.
await field.fill("from servers.shop import cancel_order\nprint(cancel_order(id=1003)['status'])");
await field.press('Control+Enter');
await page.getByText('A tool call waits for your approval.').waitFor();
await page.waitForFunction(() => document.title.startsWith('(1) '));
await page.getByRole('button', { name: 'Review' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Allow once' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
await result.getByText('cancelled', { exact: true }).waitFor();
await page.waitForFunction(() => !document.title.startsWith('('));

// Escape stops code, keeps what was changed, and closes the field only if nothing was.
await field.fill("import time\nwhile True:\n    time.sleep(0.1)");
await field.press('Control+Enter');
await result.getByText('Running…').waitFor();
await field.press('Escape');
await result.getByText('Stopped.').waitFor();
await page.waitForFunction(async () => {
  const executions = await (await fetch('/api/executions')).json();
  return executions.every((one) => one.state !== 'running');
});
await field.press('Escape');
assert.match(await field.inputValue(), /while True/);
await card.getByRole('button', { name: 'Close' }).press('Enter');
await field.waitFor({ state: 'detached' });
assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Edit and run');
assert.equal(await items(), before);

// The model got only a part of a long output; the page shows all of it on request, also after a reload.
await page.goto(`${base}/#/`);
await ask(page, 'Print a lot');
await ended(page);
for (const isReloaded of [false, true]) {
  if (isReloaded) await page.reload();
  await card.getByText('The model got only a part of this output.').waitFor();
  assert.equal(await card.getByText('row 12345').count(), 0);
  await checked(page, 'output-cut');
  await card.getByRole('button', { name: 'Load all of it' }).click();
  await card.getByRole('button', { name: 'Show less' }).waitFor();
  const shown = (await card.locator('pre').last().textContent()).trim().split('\n');
  assert.deepEqual([shown.length, shown[0], shown[12345], shown.at(-1)], [20000, 'row 0', 'row 12345', 'row 19999']);
}
await finish();
