// A conversation from the sign-in link to its deletion.

import { ask, assert, base, ended, finish, openGate, signedIn, watched } from './browser.mjs';

const { context, page } = await signedIn();
assert.equal(page.url(), `${base}/`);

// The answer appears while the model still writes.
await ask(page, 'Tell me about boats');
await page.getByText('A coracle is small.').waitFor();
await page.getByRole('button', { name: 'Stop' }).waitFor();
assert.equal(await page.getByText('It floats.').count(), 0);
assert.equal(await page.locator('strong', { hasText: 'small' }).count(), 1);

// Reloading during the stream shows everything once, and so does another tab.
await page.getByRole('textbox', { name: 'Message' }).fill('a draft');
await page.reload();
const other = await watched(context);
await other.goto(page.url());
for (const one of [page, other]) {
  await one.getByText('A coracle is small.').waitFor();
  await one.getByRole('button', { name: 'Stop' }).waitFor();
}
assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'a draft');

// A hidden tab does not listen, and catches up later.
await other.evaluate(() => {
  Object.defineProperty(document, 'hidden', { value: true, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
});
// Blocks that are complete are not made again.
await page.locator('h4', { hasText: 'Boats' }).evaluate((heading) => heading.setAttribute('data-kept', 'yes'));
await openGate('door');
await page.getByText('It floats.').waitFor();
await ended(page);
assert.equal(await page.locator('h4[data-kept]').count(), 1);
assert.equal(await other.getByText('It floats.').count(), 0);
await other.evaluate(() => {
  delete document.hidden;
  document.dispatchEvent(new Event('visibilitychange'));
});
await ended(other);
for (const one of [page, other]) {
  for (const text of ['A coracle is small.', 'It floats.']) assert.equal(await one.getByText(text).count(), 1, text);
  assert.equal(await one.getByRole('table').count(), 1);
  assert.equal(await one.locator('.user').count(), 1);
  assert.equal(await one.getByText('Reasoning', { exact: true }).count(), 1);
  assert.equal(await one.getByText('I think about boats.').isVisible(), false);
}
await page.getByText('Reasoning', { exact: true }).click();
assert.equal(await page.getByText('I think about boats.').isVisible(), true);
await other.close();

// Code with its calls, its output and its files.
await ask(page, 'Compute');
const card = page.getByRole('article', { name: /^Python/ });
await page.getByRole('article', { name: 'Python: Finished' }).waitFor();
await ended(page);
await card.getByText('shop.list_orders').first().waitFor();
await card.getByText('1 tool call').waitFor();
assert.match(await card.getByRole('list', { name: 'Tool calls of this code' }).innerText(), /\d ms\s+\d+ B → 1\.9 kB[^]*began after\s+\+\d/);
assert.equal(await card.getByText('line 1\n').count(), 0);
await card.getByRole('button', { name: 'Show all 40 lines' }).click();
assert.match(await card.innerText(), /line 0\nline 1\n/);
const picture = page.getByRole('img', { name: 'chart.svg' });
await picture.waitFor();
assert.ok((await picture.evaluate((image) => image.decode().then(() => image.naturalWidth))) > 0);
const saving = page.waitForEvent('download');
await page.getByRole('link', { name: 'Download chart.svg' }).click();
assert.equal((await saving).suggestedFilename(), 'chart.svg');

// After a reload, the files are found by the citation.
await page.reload();
await page.getByRole('img', { name: 'chart.svg' }).waitFor();
await page.getByRole('article', { name: 'Python: Finished' }).waitFor();
assert.equal(await page.getByText('The chart is ready.').count(), 1);

// An error of the model can be read, and the run can be tried again.
await ask(page, 'Fail');
await page.getByText(/^The run failed\. ./).waitFor();
await page.getByRole('button', { name: 'Try again' }).click();
await page.getByText('It works now.').waitFor();
await ended(page);

// History: rename, search, another conversation, delete.
const list = page.getByRole('navigation', { name: 'Conversations' });
await list.getByRole('button', { name: /^Actions for “Tell me about boats”/ }).click();
await page.getByRole('button', { name: 'Rename' }).click();
await page.getByRole('textbox', { name: 'Title' }).fill('Boats & rafts');
await page.getByRole('button', { name: 'Save' }).click();
await list.getByRole('link', { name: /Boats & rafts/ }).waitFor();
await page.getByRole('searchbox', { name: 'Search conversations' }).fill('no such conversation');
await page.getByText('No conversation matches.').waitFor();
await page.getByRole('searchbox', { name: 'Search conversations' }).fill('rafts');
await list.getByRole('link', { name: /Boats & rafts/ }).waitFor();
await page.getByRole('searchbox', { name: 'Search conversations' }).fill('');
await page.getByRole('link', { name: 'New conversation' }).click();
await page.getByText('What shall we do?').waitFor();
assert.equal(await page.locator('.user').count(), 0);
await list.getByRole('link', { name: /Boats & rafts/ }).click();
await page.getByText('It floats.').waitFor();
await list.getByRole('button', { name: /^Actions for “Boats/ }).click();
await page.getByRole('button', { name: 'Delete' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
await page.getByText('What shall we do?').waitFor();
await list.getByRole('link', { name: /Boats & rafts/ }).waitFor({ state: 'detached' });
await finish();
