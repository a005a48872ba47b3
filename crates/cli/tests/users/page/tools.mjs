// Tools: servers with their state, forms from schemas, answers, approvals, and the configuration of clients.

import { assert, base, checked, finish, signedIn } from './browser.mjs';

const { context, page } = await signedIn();
await context.grantPermissions(['clipboard-read', 'clipboard-write']);
const server = (name) => page.getByRole('main').getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) });
const hostile = '<img src=x onerror=alert(1)><script>alert(1)</script>';
const harmless = async () => {
  assert.equal(await page.locator('main script, main iframe, main [onerror]').count(), 0);
};

// Servers say what is wrong and how to fix it, and can be checked.
await page.goto(`${base}/#/tools`);
await page.getByRole('button', { name: 'Check connection to shop' }).click();
await server('shop').getByText(/Works: 3 tools in/).waitFor();
await page.getByRole('button', { name: 'Check connection to odd' }).click();
await server('odd').getByText(hostile).waitFor();
await page.getByRole('button', { name: 'Check connection to broken' }).click();
await server('broken').getByText(/was not found; install it/).first().waitFor();
await page.getByRole('button', { name: 'Reconnect to shop' }).click();
await server('shop').getByText('The connection was ended.').waitFor();

// A form from a schema: every kind of field, and what is wrong with a value.
await page.getByRole('link', { name: /odd\.fill/ }).click();
await page.getByText('Allowed: code calls this tool without asking.').waitFor();
await harmless();
const call = page.getByRole('button', { name: 'Call the tool' });
await call.click();
await page.getByText('A value is required.').waitFor();
const text = page.getByRole('textbox', { name: /^text/ });
assert.ok(await text.evaluate((field) => field === document.activeElement && field.ariaInvalid === 'true'));
await text.fill('hello');
await page.getByRole('textbox', { name: /^number/ }).fill('many');
await page.getByRole('textbox', { name: /^size/ }).fill('12');
await page.getByRole('textbox', { name: /^counts/ }).fill('1\ntwo');
await page.getByRole('textbox', { name: /^place/ }).fill('[1]');
await call.click();
for (const problem of ['This is not a number.', 'The value can be at most 9.', 'Line 2: This is not a number.', 'This has to be a JSON object.']) {
  await page.getByText(problem, { exact: true }).waitFor();
}
await page.getByRole('textbox', { name: /^number/ }).fill('-1.5');
await page.getByRole('textbox', { name: /^size/ }).fill('4');
await page.getByRole('combobox', { name: /^isFast/ }).selectOption('Yes');
await page.getByRole('combobox', { name: /^colour/ }).selectOption('7');
await page.getByRole('textbox', { name: /^names/ }).fill('ann\nbob');
await page.getByRole('textbox', { name: /^counts/ }).fill('1\n2');
await page.getByRole('textbox', { name: /^place/ }).fill('{"x": 1}');
await page.keyboard.press('Tab');
await call.click();
const answer = page.getByRole('region', { name: 'Answer' });
await answer.getByText('"hello"').waitFor();
const given = await answer.locator('pre').innerText();
assert.deepEqual(JSON.parse(given), {
  text: 'hello', number: -1.5, size: 4, isFast: true, colour: 7, names: ['ann', 'bob'], counts: [1, 2], place: { x: 1 },
});

// Answers: an error, images and other content, and a list as a table.
await page.goto(`${base}/#/tools/odd/fails`);
await call.click();
await answer.getByText('The tool reported an error.').waitFor();
await answer.getByText(`It broke. ${hostile}`).waitFor();
await page.goto(`${base}/#/tools/odd/draws`);
await call.click();
await answer.getByRole('img').waitFor();
assert.equal(await answer.getByRole('img').count(), 1);
await answer.getByText('Content of the type “image”').waitFor();
await answer.getByText('Content of the type “resource_link”').waitFor();
assert.equal(await answer.getByRole('link').count(), 0);
await harmless();
await page.goto(`${base}/#/tools/shop/list_orders`);
await call.click();
await answer.getByText('24 of 24 rows').waitFor();
await answer.getByRole('columnheader', { name: 'customer' }).waitFor();

// A tool that needs approval: the question appears here. Enter alone does not approve it.
await page.goto(`${base}/#/tools/shop/cancel_order`);
await page.getByText('Needs approval: each call waits until you approve it.').waitFor();
await page.getByRole('textbox', { name: /^id/ }).fill('1009');
await call.click();
const question = page.getByRole('main').getByRole('region', { name: 'Allow shop · cancel_order?' });
await question.getByText('"id": 1009').waitFor();
await page.getByText('A tool call waits for your approval.').waitFor({ state: 'hidden' });
await question.getByRole('button', { name: 'Allow once' }).focus();
await page.keyboard.press('Enter');
await question.getByText('Enter alone never approves').waitFor();
await question.getByRole('button', { name: 'Refuse' }).click();
await page.getByText(/refused this call/).waitFor();
await call.click();
await page.getByRole('button', { name: 'Stop waiting' }).click();
await page.getByText('The call was cancelled.').waitFor();
await call.click();
await question.getByRole('button', { name: 'Always allow' }).focus();
await page.keyboard.press('Space');
await answer.getByText('cancelled').first().waitFor();
await page.reload();
await page.getByText('Allowed by you: code calls this tool without asking.').waitFor();
const own = page.getByRole('group', { name: 'Your decision' });
const choice = (name) => own.getByRole('button', { name });
const isChosen = (name) => own.getByRole('button', { name, pressed: true }).waitFor();
await isChosen('Always allow');
await choice('As the policy says').click();
await isChosen('As the policy says');
await page.getByText('Needs approval: each call waits until you approve it.').waitFor();

// The same call from now on, with these arguments only. Other arguments are asked about, and the permission can be
// taken back.
const calls = async (number) => {
  await page.getByRole('textbox', { name: /^id/ }).fill(String(number));
  await call.click();
};
await calls(1011);
await question.getByRole('checkbox', { name: 'Allow later calls with these arguments only' }).focus();
await page.keyboard.press('Space');
await question.getByRole('button', { name: 'Always allow' }).focus();
await page.keyboard.press('Space');
await answer.getByText('cancelled').first().waitFor();
await calls(1012);
await question.getByText('"id": 1012').waitFor();
await question.getByRole('button', { name: 'Refuse' }).click();
await page.getByText(/refused this call/).waitFor();
await calls(1011);
await answer.getByText('cancelled').first().waitFor();
await page.reload();
await page.getByText('You also allow calls with certain arguments.').waitFor();
await isChosen('As the policy says');
await page.getByRole('button', { name: 'Forget', exact: true }).click();
await page.getByText('You also allow calls with certain arguments.').waitFor({ state: 'hidden' });

// The own decision is changed by a click. Allowing takes a confirmation, which Enter alone does not give.
const remembered = () => page.evaluate(() => fetch('/api/decisions').then((answer) => answer.json()).then((list) => list.decisions.map((one) => `${one.tool}: ${one.decision}`)));
assert.deepEqual(await remembered(), []);
await choice('Always allow').click();
const dialog = page.getByRole('dialog', { name: 'Always allow shop.cancel_order?' });
await dialog.getByRole('button', { name: 'Always allow' }).focus();
await page.keyboard.press('Enter');
await dialog.getByText('Enter alone never approves').waitFor();
assert.deepEqual(await remembered(), []);
await checked(page, 'tool-allow');
await page.keyboard.press('Space');
await isChosen('Always allow');
assert.deepEqual(await remembered(), ['cancel_order: allow']);
await page.getByRole('textbox', { name: /^id/ }).fill('1010');
await call.click();
await answer.getByText('cancelled').first().waitFor();

// An admin who cannot change the settings here gets the line for them.
const address = `${base}/api/tools/shop/cancel_order`;
await page.route(address, async (route) => {
  const response = await route.fetch();
  const tool = await response.json();
  await route.fulfill({ response, json: { ...tool, policy: { ...tool.policy, can_change: false } } });
});
await page.reload();
await page.getByText('policy: { tools: { "shop.cancel_order": allow } }').waitFor();
assert.equal(await page.getByRole('group', { name: 'For everyone' }).count(), 0);
await page.evaluate(() => navigator.clipboard.writeText(''));
await page.getByRole('button', { name: 'Copy line' }).click();
await page.waitForFunction(() => navigator.clipboard.readText().then((text) => text === 'policy: { tools: { "shop.cancel_order": allow } }'));
await page.unroute(address);

// Everyone can be stricter than the policy, which does not ask about this tool.
await page.goto(`${base}/#/tools/shop/list_orders`);
await page.getByText('Allowed: code calls this tool without asking.').waitFor();
assert.equal(await choice('Always allow').count(), 0);
await choice('Never').click();
await isChosen('Never');
await page.getByText('The policy of the server allows this tool: no rule matches.').waitFor();
await call.click();
await page.getByText(/permanently refused/).waitFor();
await choice('Ask me each time').click();
await isChosen('Ask me each time');
await checked(page, 'tool-decision');
await call.click();
const asked = page.getByRole('main').getByRole('region', { name: 'Allow shop · list_orders?' });
await asked.getByRole('button', { name: 'Allow once' }).click();
await answer.getByText('24 of 24 rows').waitFor();
await page.goto(`${base}/#/tools/odd/never`);
await page.getByText('Denied: calls of this tool fail, and nobody can approve them.').waitFor();
assert.equal(await own.count(), 0);

// The settings list all own decisions, and take them back.
await page.goto(`${base}/#/settings`);
const decided = (tool) => page.getByRole('main').getByRole('listitem').filter({ has: page.getByRole('link', { name: tool }) });
await decided('shop.list_orders').getByText('Ask me each time').waitFor();
await decided('shop.cancel_order').getByText('Always allow').waitFor();
await checked(page, 'settings-decisions');
await page.getByRole('button', { name: 'Take back: shop.list_orders' }).click();
await decided('shop.list_orders').waitFor({ state: 'hidden' });
assert.deepEqual(await remembered(), ['cancel_order: allow']);
await page.getByRole('button', { name: 'Take back: shop.cancel_order' }).click();
await page.getByText('You have decided nothing permanently.').waitFor();
await page.goto(`${base}/#/tools/shop/cancel_order`);
await isChosen('As the policy says');

// The generated functions, and the configuration of clients.
await page.getByText('from servers.shop import cancel_order').waitFor();
await page.getByRole('combobox', { name: 'Language' }).selectOption('TypeScript');
await page.getByText('function cancel_order').waitFor();
await page.getByRole('link', { name: 'All tools' }).click();
for (const [client, key] of [['Claude Code', 'mcpServers'], ['Claude Desktop', 'mcpServers'], ['Cursor', 'mcpServers'], ['VS Code', 'servers']]) {
  await page.getByRole('combobox', { name: 'Client' }).selectOption(client);
  await page.evaluate(() => navigator.clipboard.writeText(''));
  await page.getByRole('button', { name: /^(Copy configuration for my client|Copied)$/ }).click();
  await page.waitForFunction(() => navigator.clipboard.readText().then((text) => text !== ''));
  const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
  const entry = copied[key].coracle;
  assert.ok(client === 'Claude Desktop' ? entry.command === 'coracle' : entry.url === `${base}/mcp`, JSON.stringify(entry));
}
await page.getByRole('searchbox', { name: 'Search tools' }).fill('nothing like it');
await page.getByText('No tool matches.').waitFor();
await page.goto(`${base}/#/tools/shop/gone`);
await page.getByText('There is no such tool.').waitFor();
await finish(/403 \(Forbidden\)/, /404 \(Not Found\)/);
