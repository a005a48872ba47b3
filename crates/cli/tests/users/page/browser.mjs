// A real browser with the page of a real server. The arguments are in the environment; see `page.rs`.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { CORACLE_PAGE_MODULES: modules, CORACLE_PAGE_URL: url, CORACLE_PAGE_LINK: link } = process.env;
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
/** The checker as a script. The policy of the page does not apply to what a driver runs. */
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export { assert };
export const base = url;
export { link };

/** Slow machines need longer than the default. */
const PATIENCE = 120_000;

/** Opens a gate of the scripted model. */
export async function openGate(name) {
  const answer = await fetch(`${process.env.CORACLE_PAGE_MODEL}/scripted/gates/${name}`, { method: 'POST' });
  assert.equal(answer.status, 204);
}

/** Opens a sign-in link. Users are offered to set a password first. */
export async function signIn(page, link) {
  await page.goto(link);
  await page.getByRole('button', { name: 'Sign in' }).click();
  const message = page.getByRole('textbox', { name: 'Message' });
  const later = page.getByText('Not now');
  await message.or(later).waitFor();
  if (await later.isVisible()) await page.goto(`${base}/`);
  await message.waitFor();
}

let browser;

/** Starts a browser that looks up names and connects in advance, which some distributions turn off. */
async function eager(launch, log, options) {
  const profile = `${process.env.HOME}/profile`;
  mkdirSync(`${profile}/Default`, { recursive: true });
  writeFileSync(`${profile}/Default/Preferences`, JSON.stringify({ net: { network_prediction_options: 0 } }));
  const args = [...launch.args, `--log-net-log=${log}`];
  const context = await chromium.launchPersistentContext(profile, { ...launch, ...options, args });
  browser = context;
  return context;
}

/** Starts the browser with an empty page. `log` is a file for what it does on the network, in advance, too. */
export async function opened({ log, ...given } = {}) {
  const launch = { executablePath: process.env.CORACLE_PAGE_BROWSER, args: ['--no-sandbox'] };
  const options = { viewport: { width: 1280, height: 800 }, ...given };
  if (!log) browser = await chromium.launch(launch);
  const context = await (log ? eager(launch, log, options) : browser.newContext(options));
  context.setDefaultTimeout(PATIENCE);
  return { browser, context, page: await watched(context) };
}

/** Starts the browser with the cookie of the link, which works once. */
export async function signedIn(options = {}) {
  const started = await opened(options);
  await signIn(started.page, link);
  return started;
}

const complaints = [];

/** A page whose errors fail the test at its end. */
export async function watched(context) {
  const page = await context.newPage();
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} (${message.location().url})`);
  });
  return page;
}

/** What the browser has complained about so far. */
export function takeComplaints() {
  return complaints.splice(0);
}

export async function ask(page, text) {
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
  await page.keyboard.press('Enter');
}

/** Runs Python in the sandbox, as the user of the page. */
export async function runCode(page, code, options = {}) {
  const outcome = await page.evaluate(async (body) => {
    const headers = { 'content-type': 'application/json', 'x-coracle-csrf': '1' };
    const answer = await fetch('/api/executions', { method: 'POST', headers, body: JSON.stringify(body) });
    return answer.json();
  }, { code, ...options });
  assert.equal(outcome.success, true, JSON.stringify(outcome));
  return outcome;
}

/** The texts of elements, also of those that are not rendered because they are not in view. */
export async function texts(locator) {
  return (await locator.allTextContents()).map((text) => text.trim());
}

/** Waits until the run has ended. */
export const ended = (page) => page.getByText(/tokens in/).waitFor();

const pictures = process.env.CORACLE_PAGE_PICTURES;

/** Checks a view in both themes and at two widths: no violations of accessibility, nothing wider than the screen. */
export async function checked(page, name) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    for (const [width, height] of [[1280, 800], [390, 844]]) {
      await page.setViewportSize({ width, height });
      await page.waitForFunction((wanted) => innerWidth === wanted, width);
      const violations = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, {
          runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
        });
        return violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.html).join(' | ')}`);
      });
      assert.deepEqual(violations, [], `${name}, ${theme}, ${width}`);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide at ${width}`);
      if (pictures) await page.screenshot({ path: `${pictures}/${name}-${theme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** Ends the browser. Only what the scenario has provoked may have been complained about. */
export async function finish(...provoked) {
  await browser.close();
  assert.deepEqual(complaints.filter((complaint) => !provoked.some((pattern) => pattern.test(complaint))), []);
}
