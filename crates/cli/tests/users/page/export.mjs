// A conversation is saved as a file in each format, and continued in a copy.

import { readFile } from 'node:fs/promises';
import { ask, assert, checked, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const list = page.getByRole('navigation', { name: 'Conversations' });
const answer = (text) => page.locator('.answer', { hasText: text });

await ask(page, 'Compute');
await answer('The chart is ready.').waitFor();
await ended(page);
const original = page.url();
const menu = () => list.getByRole('button', { name: 'Actions for “Compute”' }).press('Enter');
await menu();
await list.getByRole('group', { name: 'Export as' }).waitFor();
await checked(page, 'menu');

async function saved(format) {
  if (!(await list.getByRole('link', { name: format }).isVisible())) await menu();
  const saving = page.waitForEvent('download');
  await list.getByRole('link', { name: format }).press('Enter');
  const download = await saving;
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), 'utf8') };
}

const markdown = await saved('Markdown');
assert.match(markdown.name, /\.md$/);
assert.match(markdown.text, /The chart is ready\./);
const json = await saved('JSON');
assert.match(json.name, /\.json$/);
assert.match(JSON.stringify(JSON.parse(json.text)), /list_orders/);
const notebook = await saved('Jupyter notebook');
assert.match(notebook.name, /\.ipynb$/);
assert.ok(JSON.parse(notebook.text).cells.some((cell) => cell.cell_type === 'code'));

// The copy has everything, and goes on by itself.
await menu();
await list.getByRole('button', { name: 'Fork' }).press('Enter');
await list.getByRole('link', { name: 'Compute (2)' }).waitFor();
await page.getByRole('navigation', { name: 'Branches' }).getByRole('link', { name: 'Compute' }).waitFor();
await answer('The chart is ready.').waitFor();
assert.notEqual(page.url(), original);
await ask(page, '[script:echo] further');
await answer('further').waitFor();
await ended(page);
await page.goto(original);
await page.getByRole('navigation', { name: 'Branches' }).getByRole('link', { name: 'Compute (2)' }).waitFor();
await answer('The chart is ready.').waitFor();
assert.equal(await answer('further').count(), 0);
await finish();
