// A message that is edited and sent again, as a branch of its conversation.

import { ask, assert, base, checked, ended, finish, signedIn, texts } from './browser.mjs';

const { page } = await signedIn();
const mine = () => texts(page.locator('.user > p'));
const answer = (text) => page.locator('.answer', { hasText: text });
const related = page.getByRole('navigation', { name: 'Branches' });
const list = page.getByRole('navigation', { name: 'Conversations' });
const bubble = (text) => page.locator('.mine', { hasText: text });

for (const text of ['alpha', 'beta', 'gamma']) {
  await ask(page, `[script:echo] ${text}`);
  await answer(text).waitFor();
  await ended(page);
}
const original = page.url();
assert.equal(await related.count(), 0);

// Escape gives up, and the focus returns.
await bubble('beta').getByRole('button', { name: 'Edit and send again' }).press('Enter');
const field = page.getByRole('textbox', { name: 'Edited message' });
assert.equal(await field.inputValue(), '[script:echo] beta');
await checked(page, 'edit');
await field.press('Escape');
await field.waitFor({ state: 'detached' });
assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Edit and send again');

// The branch has what was before the message, and the original stays. Each names the other.
await page.keyboard.press('Enter');
await field.fill('[script:echo] better');
await page.keyboard.press('Enter');
await answer('better').waitFor();
await ended(page);
const branch = page.url();
assert.notEqual(branch, original);
assert.deepEqual(await mine(), ['[script:echo] alpha', '[script:echo] better']);
await related.getByText('Branch of').waitFor();
await page.reload();
await answer('better').waitFor();
assert.deepEqual(await mine(), ['[script:echo] alpha', '[script:echo] better']);
await checked(page, 'branch');
await related.getByRole('link', { name: '[script:echo] alpha' }).click();
await answer('gamma').waitFor();
assert.equal(page.url(), original);
assert.deepEqual(await mine(), ['alpha', 'beta', 'gamma'].map((text) => `[script:echo] ${text}`));
await related.getByRole('link', { name: '[script:echo] alpha (2)' }).waitFor();

// Nothing is before the first message.
await bubble('alpha').getByRole('button', { name: 'Edit and send again' }).click();
await field.fill('[script:echo] omega');
await page.getByRole('button', { name: 'Send as a branch' }).click();
await answer('omega').waitFor();
await ended(page);
assert.deepEqual(await mine(), ['[script:echo] omega']);
await related.getByRole('link', { name: '[script:echo] alpha' }).click();
await answer('gamma').waitFor();
await related.getByRole('link', { name: '[script:echo] omega' }).waitFor();
await related.getByRole('link', { name: '[script:echo] alpha (2)' }).waitFor();

// Another answer to a message: a branch that ends with it. The original stays.
const entries = () => texts(page.locator('.user > p, .answer'));
await page.locator('.answer', { hasText: 'beta' }).getByRole('button', { name: 'Another answer, in a branch' }).press('Enter');
await related.getByText('Branch of').waitFor();
await ended(page);
const retried = page.url();
assert.ok(![original, branch].includes(retried));
assert.deepEqual(await entries(), ['alpha', 'beta'].flatMap((text) => [`[script:echo] ${text}`, `[script:echo] ${text}`]));
await page.reload();
await answer('beta').waitFor();
assert.equal((await entries()).length, 4);
await page.goto(original);
await answer('gamma').waitFor();
assert.equal((await entries()).length, 6);
await list.getByRole('button', { name: 'Actions for “[script:echo] alpha (4)”' }).click();
await page.getByRole('button', { name: 'Delete' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
await list.getByRole('link', { name: 'alpha (4)' }).waitFor({ state: 'detached' });

// A branch that is deleted is named no more.
await list.getByRole('button', { name: 'Actions for “[script:echo] omega”' }).click();
await page.getByRole('button', { name: 'Delete' }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
await list.getByRole('link', { name: 'omega' }).waitFor({ state: 'detached' });
await page.goto(`${base}/#/`);
await page.goto(original);
await related.getByRole('link', { name: '[script:echo] alpha (2)' }).waitFor();
assert.equal(await related.getByRole('link').count(), 1);
await finish();
