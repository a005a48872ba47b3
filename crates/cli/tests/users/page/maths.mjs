// Formulas are MathML, prices are text, and hostile formulas do nothing.

import { ask, assert, checked, ended, finish, openGate, signedIn } from './browser.mjs';

const { page } = await signedIn();
const answers = page.locator('.answer');
const requests = [];
page.on('request', (request) => requests.push(request.url()));

// Nothing is loaded before the first formula, and prices and variables are none.
const prices = 'I have $20 and you have 30$. It costs $5 or $10, or US$7/US$8. The shell has $HOME:$PATH and `$x$`. Escaped: \\$y\\$.';
await ask(page, `[script:echo] ${prices}`);
await answers.first().waitFor();
await ended(page);
assert.equal(await page.locator('math').count(), 0);
await answers.first().scrollIntoViewIfNeeded();
assert.match(await answers.first().innerText(), /have 30\$\. It costs \$5 or \$10, or US\$7\/US\$8\. The shell has \$HOME:\$PATH and \$x\$\. Escaped: \$y\$\./);
assert.ok(!requests.some((url) => url.includes('temml')));

// All forms, while they arrive in pieces. A formula that has not ended is text.
await ask(page, 'Explain the waves');
await page.getByText('a formula follows').waitFor();
await page.getByText('\\begin{aligned}').waitFor();
assert.equal(await answers.last().getByRole('list').count(), 0);
await openGate('maths');
await answers.last().getByText('That is all.').waitFor();
await ended(page);
for (let turn = 0; turn < 2; turn += 1) {
  await page.waitForFunction(() => document.querySelectorAll('math').length === 4);
  assert.equal(await answers.last().locator('math.tml-display').count(), 2);
  assert.equal(await answers.last().getByRole('list').count(), 0);
  assert.equal(await answers.last().locator('mfrac').count(), 1);
  if (turn === 0) {
    await checked(page, 'maths');
    await page.reload();
    await answers.last().getByText('That is all.').waitFor();
  }
}
assert.ok(requests.some((url) => url.includes('temml')));

// Formulas that cannot be read, or that want more than to be read, stay as they are written.
const hostile = [
  '$\\href{javascript:alert(1)}{click}$',
  '$\\includegraphics{https://example.org/x.png}$',
  '$\\def\\a{\\a\\a}\\a$',
  '$\\class{modal}{x}$',
  '$\\frac{1$',
  '$\\text{<img src=x onerror=alert(1)>}$',
  '$\\rule{9000em}{9000em}$',
];
await ask(page, `[script:echo]\n\n${hostile.join('\n\n')}`);
await answers.last().getByText('\\frac{1').waitFor();
await ended(page);
const last = answers.last();
await page.waitForFunction(() => [...document.querySelectorAll('.answer')].at(-1).querySelectorAll('math').length === 2);
for (const text of hostile.slice(0, 5)) assert.equal(await last.getByText(text, { exact: true }).count(), 1, text);
assert.equal(await last.locator('a, img, [style*=url]').count(), 0);
assert.match(await last.innerText(), /<img\ssrc=x\sonerror=alert\(1\)>/);
const wide = await last.locator('.formula').last().evaluate((formula) => formula.getBoundingClientRect().width);
assert.ok(wide <= 800, `${wide} pixels`);
await checked(page, 'maths-hostile');
await finish();
