// The command palette, by keyboard alone.

import { ask, assert, base, checked, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const palette = page.getByRole('dialog', { name: 'Command palette' });
const field = palette.getByRole('combobox');
const chosen = palette.getByRole('option', { selected: true });
const message = page.getByRole('textbox', { name: 'Message', exact: true });

async function open(query = '') {
  await page.keyboard.press('Control+k');
  await field.waitFor();
  if (query) await page.keyboard.type(query);
}

await ask(page, '[script:echo] The harbour at dawn');
await ended(page);
const first = page.url();
await page.goto(`${base}/#/`);
await page.getByText('What shall we do?').waitFor();

// Escape closes it, and the focus returns.
await message.focus();
await open();
await palette.getByRole('group', { name: 'Conversations' }).getByRole('option', { name: 'The harbour at dawn' }).waitFor();
assert.equal(await chosen.innerText(), 'New conversation');
assert.equal(await field.getAttribute('aria-activedescendant'), await chosen.getAttribute('id'));
await checked(page, 'palette');
await page.keyboard.press('Escape');
await palette.waitFor({ state: 'hidden' });
assert.ok(await message.evaluate((area) => area === document.activeElement));
await open();
await page.keyboard.press('Control+k');
await palette.waitFor({ state: 'hidden' });

// The arrows go around.
await open();
await palette.getByRole('group', { name: 'Models' }).getByRole('option', { name: /lab\/demo/ }).waitFor();
await page.keyboard.press('ArrowUp');
const last = await palette.getByRole('option').last().getAttribute('id');
assert.equal(await field.getAttribute('aria-activedescendant'), last);
await page.keyboard.press('ArrowDown');
await palette.getByRole('option', { name: 'New conversation', selected: true }).waitFor();
await page.keyboard.press('Escape');

// Conversations are found by their text, and views and actions by their names.
await open('HARBOUR dawn');
assert.equal(await palette.getByRole('option').count(), 1);
await palette.getByRole('option', { name: 'The harbour at dawn', selected: true }).waitFor();
await page.keyboard.press('Enter');
await page.waitForURL(first);
await page.locator('.answer', { hasText: 'dawn' }).waitFor();
await open('zebra crossing');
await palette.getByText('Nothing matches.').waitFor();
await checked(page, 'palette-none');
await page.keyboard.press('Escape');
await open('theme dark');
await page.keyboard.press('Enter');
assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
await open('theme system');
await page.keyboard.press('Enter');
const saving = page.waitForEvent('download');
await open('export markdown');
await page.keyboard.press('Enter');
assert.match((await saving).suggestedFilename(), /\.md$/);
await open('fork');
await page.keyboard.press('Enter');
await page.getByRole('navigation', { name: 'Branches' }).getByText('Branch of').waitFor();
await open('tools');
await page.keyboard.press('Enter');
await page.getByRole('heading', { name: 'Tools', level: 1 }).waitFor();
await open('new conv');
await page.keyboard.press('Enter');
await page.getByText('What shall we do?').waitFor();
await open('shortcuts');
await page.keyboard.press('Enter');
await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();

// It does not cover another dialog.
await page.keyboard.press('Control+k');
assert.equal(await palette.count(), 0);
await page.keyboard.press('Escape');

// A run can be stopped from it.
await ask(page, 'Run for ever');
await page.getByRole('article', { name: 'Python: Running' }).getByText('tick 3').waitFor();
await open('stop');
await page.keyboard.press('Enter');
await page.getByRole('button', { name: 'Try again' }).waitFor();
await finish();
