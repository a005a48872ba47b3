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
await summary.getByText(/saved in this conversation/).waitFor();
assert.match(await summary.innerText(), /tokens in, [\d,]+ out · about [\d,]+ saved in this conversation \(estimate\)/);
await summary.press('Enter');
await value('Context of the next request').waitFor();
const context = await value('Context of the next request').innerText();
assert.match(context, /^about [\d,]+ tokens \(estimate\)$/);
assert.ok(number(context) > 100);
const kept = await value('Saved in this conversation').innerText();
assert.match(kept, /^1\.\d kB of the results of 1 tool call stayed in the sandbox: about [\d,]+ tokens \(estimate/);
assert.ok(Math.abs(number(kept) - 450) < 60, kept);
await checked(page, 'tokens');

// The server knows it, so it is there after a reload, and for the whole conversation.
await page.reload();
await ended(page);
await summary.getByText(/saved in this conversation/).waitFor();
await summary.press('Enter');
assert.equal(await value('Saved in this conversation').innerText(), kept);
await ask(page, 'Count the orders');
await page.locator('.answer', { hasText: 'Counted.' }).nth(1).waitFor();
await ended(page);
await value('Saved in this conversation').getByText('the results of 2 tool calls').waitFor({ state: 'attached' });
await finish();
