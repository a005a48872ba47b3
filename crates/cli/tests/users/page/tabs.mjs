// Seven tabs of one browser, which opens at most six connections to the server: only the tab in view has a stream.

import { ask, assert, ended, finish, openGate, signedIn, watched } from './browser.mjs';

const TABS = 7;
const { context, page } = await signedIn();

/** Streams of a tab that are open. */
const streams = new Map();

/** Counts the streams of a tab. A driver shows all tabs at once, so the tab is told whether it is in view. */
async function prepared(tab) {
  const open = new Set();
  streams.set(tab, open);
  const isStream = (request) => /\/v1\/responses\b/.test(request.url()) && (request.method() === 'POST' || request.url().includes('stream=true'));
  tab.on('request', (request) => isStream(request) && open.add(request));
  for (const end of ['requestfinished', 'requestfailed']) tab.on(end, (request) => open.delete(request));
  return tab;
}

async function show(tab, isShown) {
  await tab.evaluate((isHidden) => {
    Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !isShown);
}

const tabs = [await prepared(page)];
await ask(page, 'Stay');
await page.getByText('And I wri').waitFor();
const address = page.url();

// Each tab shows the run when it is opened, also the last one.
while (tabs.length < TABS) {
  await show(tabs.at(-1), false);
  const tab = await prepared(await watched(context));
  await tab.goto(address);
  await tab.getByText('And I wri').waitFor();
  await tab.getByRole('button', { name: 'Stop' }).waitFor();
  tabs.push(tab);
}
const counts = () => tabs.map((tab) => streams.get(tab).size);
await tabs[0].waitForFunction(() => document.hidden);
assert.deepEqual(counts(), [0, 0, 0, 0, 0, 0, 1], 'open streams');

// The run ends in the tab that is in view, and in the others when they are.
await openGate('stay');
await ended(tabs.at(-1));
for (const tab of tabs.slice(0, -1)) {
  assert.equal(await tab.getByText('And I write on.').count(), 0);
  await show(tab, true);
  await ended(tab);
}
for (const tab of tabs) {
  for (const text of ['I stay.', 'And I write on.']) assert.equal(await tab.getByText(text, { exact: true }).count(), 1, text);
  assert.equal(await tab.locator('.user').count(), 1);
}
assert.deepEqual(counts(), [0, 0, 0, 0, 0, 0, 0], 'streams at the end');

// A message can be sent in each of them, and the next one shows it.
for (const tab of tabs) await show(tab, false);
for (const [index, tab] of tabs.entries()) {
  await show(tab, true);
  if (index > 0) await tab.locator('.answer', { hasText: `tab ${index - 1}` }).waitFor();
  await tab.getByRole('button', { name: 'Send', exact: true }).waitFor();
  await ask(tab, `[script:echo] tab ${index}`);
  await tab.locator('.answer', { hasText: `tab ${index}` }).waitFor();
  await tab.getByRole('button', { name: 'Send', exact: true }).waitFor();
  await show(tab, false);
}
await finish();
