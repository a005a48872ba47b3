// The whole of a first use by keyboard alone. The focus is always somewhere, and can be seen there.

import { assert, ended, finish, link, opened, takeComplaints } from './browser.mjs';

const { page } = await opened();
const message = page.getByRole('textbox', { name: 'Message', exact: true });

/** Where the focus is: a description, and what is wrong with it. */
async function focus() {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (!element || element === document.body) return { name: 'nothing', problem: 'the focus is lost' };
    const name = `${element.localName} “${(element.getAttribute('aria-label') ?? element.textContent ?? '').trim().slice(0, 40)}”`;
    const box = element.getBoundingClientRect();
    const isInView = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    if (!isInView || !element.checkVisibility({ visibilityProperty: true })) return { name, problem: 'it cannot be seen' };
    const hasRing = (one) => {
      const style = getComputedStyle(one);
      return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1) || style.boxShadow !== 'none';
    };
    // The frame of the message shows the focus of its field.
    const frame = element.localName === 'textarea' ? element.closest('form') : null;
    return { name, problem: hasRing(element) || (frame && hasRing(frame)) ? '' : 'nothing shows the focus' };
  });
}

async function checkFocus(after) {
  const { name, problem } = await focus();
  assert.equal(problem, '', `${name}, after ${after}`);
}

async function press(key) {
  await page.keyboard.press(key);
  await checkFocus(key);
}

const hasFocus = (locator) => locator.evaluate((element) => element === document.activeElement);

/** Goes to an element with Tab, or with another key. */
async function goTo(locator, key = 'Tab') {
  await locator.waitFor();
  const passed = [];
  while (!(await hasFocus(locator))) {
    await press(key);
    passed.push((await focus()).name);
    assert.ok(passed.length < 80, `cannot be reached: ${locator}; passed ${passed.join(', ')}`);
  }
}

async function say(text) {
  assert.ok(await hasFocus(message));
  await page.keyboard.type(text);
  await press('Enter');
  await ended(page);
  await checkFocus(text);
}

async function palette(query) {
  await press('Control+k');
  await page.getByRole('dialog', { name: 'Command palette' }).getByRole('combobox').waitFor();
  await page.keyboard.type(query);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Command palette' }).waitFor({ state: 'hidden' });
}

// Sign in, and ask.
await page.goto(link);
const signIn = page.getByRole('button', { name: 'Sign in' });
while (!(await hasFocus(signIn))) await page.keyboard.press('Tab');
await page.keyboard.press('Enter');
await message.waitFor();
await press('Tab');
assert.equal((await focus()).name, 'a “Skip to the conversation”');
await press('Enter');
await press('/');
await say('Count the orders');

// The card of the execution: close it, open it, read the code.
const card = page.getByRole('article', { name: 'Python: Finished' });
const toggle = card.getByRole('button', { name: 'Python' });
const code = card.getByLabel('Code', { exact: true });
await goTo(toggle, 'Shift+Tab');
await press('Enter');
await code.waitFor({ state: 'detached' });
await press('Enter');
await goTo(code);
assert.match(await code.innerText(), /from servers\.shop import list_orders/);

// A call waits for approval. Enter alone does not approve it, Space does.
await press('/');
await page.keyboard.type('Cancel order 1007');
await press('Enter');
const question = page.getByRole('region', { name: 'Allow shop · cancel_order?' });
await question.waitFor();
await press('Enter');
await goTo(question.getByRole('button', { name: 'Allow once' }), 'Shift+Tab');
await press('Enter');
await question.getByText('Enter alone never approves').waitFor();
const open = await page.evaluate(() => fetch('/api/approvals?state=open').then((answer) => answer.json()));
assert.equal(open.approvals.length, 1);
await press('Space');
await question.waitFor({ state: 'detached' });
await checkFocus('the approval');
await ended(page);
await page.getByText('order 1007 is cancelled').first().waitFor();

// Rename the conversation.
await goTo(page.getByRole('button', { name: /^Actions for “Count the orders”/ }), 'Shift+Tab');
await press('Enter');
await goTo(page.getByRole('button', { name: 'Rename' }));
await press('Enter');
assert.ok(await hasFocus(page.getByRole('textbox', { name: 'Title' })));
await press('Control+a');
await page.keyboard.type('Orders');
await page.keyboard.press('Enter');
await page.getByRole('navigation', { name: 'Conversations' }).getByRole('link', { name: /^Orders/ }).waitFor();
const actions = page.getByRole('button', { name: 'Actions for “Orders”' });
await actions.waitFor();
await checkFocus('renaming');

// The palette: another theme. The focus is where it was.
await goTo(actions);
await palette('theme dark');
assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
await checkFocus('the palette');
assert.ok(await hasFocus(actions));

// Delete the conversation, and begin another one.
await press('Enter');
await goTo(page.getByRole('button', { name: 'Delete' }));
await press('Enter');
await goTo(page.getByRole('dialog').getByRole('button', { name: 'Delete' }));
await page.keyboard.press('Enter');
await page.getByText('What shall we do?').waitFor();
await actions.waitFor({ state: 'detached' });
await page.waitForFunction(() => document.activeElement !== document.body);
await checkFocus('deleting');
await goTo(message);
await say('[script:echo] By keyboard');

// The theme in the settings, and signing out.
await palette('settings');
const dark = page.getByRole('radio', { name: 'Dark' });
await dark.waitFor();
await page.waitForFunction(() => document.activeElement !== document.body);
await checkFocus('another view');
await goTo(dark);
await press('ArrowLeft');
assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
await goTo(page.getByRole('button', { name: 'Sign out' }));
await page.keyboard.press('Enter');
await page.waitForURL(/sign-in/);
assert.deepEqual(takeComplaints(), []);
await finish();
