// A server that requires a sign-in: in a window of its own, and out again.

import { assert, base, checked, finish, signedIn } from './browser.mjs';

const { context, page } = await signedIn();
await page.goto(`${base}/#/tools`);
await page.getByRole('button', { name: 'Check connection to guarded' }).click();
await page.getByText(/requires a sign-in/).first().waitFor();
await page.getByRole('button', { name: 'Sign in to guarded' }).click();
const link = page.getByRole('link', { name: /^Continue at 127\.0\.0\.1:/ });
await link.waitFor();
await checked(page, 'sign-in');
assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
const [other] = await Promise.all([context.waitForEvent('page'), link.click()]);
await other.getByText('You are signed in to guarded.').waitFor();

// The address works once.
await other.reload();
await other.getByText('begun by somebody else').waitFor();
await other.close();
await page.getByRole('button', { name: 'Check connection to guarded' }).click();
await page.getByText(/^Works: 1 tool/).waitFor();
await page.getByRole('button', { name: 'Sign out of guarded' }).click();
await page.getByRole('button', { name: 'Sign in to guarded' }).waitFor();
await page.getByRole('button', { name: 'Check connection to guarded' }).click();
await page.getByText(/requires a sign-in/).first().waitFor();
await finish(/status of 409/);
