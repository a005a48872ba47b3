// Tokens of a run, and estimates that are marked as such.

import { ask, assert, checked, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const number = (text) => Number(/([\d,]+) tokens/.exec(text)?.[1]?.replaceAll(',', ''));
const value = (name) => page.locator('dt', { hasText: name }).locator('xpath=following-sibling::dd[1]');

// Code that prints all that it gets keeps nothing out of the context.
await ask(page, '[script:echo] hello');
await ended(page);
assert.equal(await page.getByText('(estimate)').count(), 0);

// Results of tools that code does not print stay in the sandbox.
await ask(page, 'Count the orders');
await page.locator('.answer', { hasText: 'Counted.' }).waitFor();
await ended(page);
const summary = page.locator('summary', { hasText: 'tokens in' });
assert.match(await summary.innerText(), /tokens in, [\d,]+ out · about [\d,]+ kept out \(estimate\)$/);
await summary.press('Enter');
await value('Context of the next request').waitFor();
const context = await value('Context of the next request').innerText();
assert.match(context, /^about [\d,]+ tokens \(estimate\)$/);
assert.ok(number(context) > 100);
const kept = await value('Kept out of the context').innerText();
assert.match(kept, /^1\.9 kB of tool results stayed in the sandbox: about [\d,]+ tokens \(estimate/);
assert.ok(Math.abs(number(kept) - 475) < 25, kept);
await checked(page, 'tokens');

// The page does not guess what it has not seen.
await page.reload();
await ended(page);
assert.equal(await page.getByText('kept out').count(), 0);
await finish();
