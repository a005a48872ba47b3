// How much of the context of a model a conversation uses, if the size of that context is known.

import { ask, assert, checked, ended, finish, signedIn } from './browser.mjs';

const { page } = await signedIn();
const summary = page.locator('summary', { hasText: 'tokens in' });
const share = async () => {
  await summary.getByText(/about [\d.]+% of the context$/).waitFor();
  return Number(/about ([\d.]+)% of/.exec(await summary.innerText())[1]);
};

await ask(page, '[script:echo] hello');
await ended(page);
const first = await share();
assert.ok(first > 0 && first < 100, String(first));
const gauge = page.getByRole('meter', { name: 'Context of the next request' });
assert.match(await gauge.getAttribute('aria-valuetext'), /^about [\d,]+ of 40,000 tokens \(estimate\)$/);
await summary.press('Enter');
await page.getByText(/^about [\d,]+ of 40,000 tokens \(estimate\)$/).waitFor();
await checked(page, 'context');

// It grows with the conversation, and is there after a reload. An image does not count as the text that it is sent as.
await ask(page, `[script:echo] ${'many words '.repeat(2_000)}`);
await page.locator('.answer', { hasText: 'many words' }).waitFor();
await ended(page);
await page.reload();
await ended(page);
await page.waitForFunction((least) => Number(/about ([\d.]+)% of/.exec(document.querySelector('main')?.innerText ?? '')?.[1]) > least, first + 5);
const second = await share();
const noise = await page.evaluate(() => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 200, height: 200 });
  const context = canvas.getContext('2d');
  const image = context.createImageData(200, 200);
  image.data.forEach((_, index) => (image.data[index] = Math.random() * 256));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL('image/png').split(',')[1];
});
assert.ok(noise.length > 80_000, 'as text, the image would not fit into the context');
await page.locator('form input[type=file]').setInputFiles([{ name: 'noise.png', mimeType: 'image/png', buffer: Buffer.from(noise, 'base64') }]);
await page.getByRole('button', { name: 'Show noise.png to the model', pressed: true }).waitFor();
await ask(page, '[script:echo] an image');
await page.locator('.answer', { hasText: 'an image' }).waitFor();
await ended(page);
await page.waitForFunction((least) => Number(/about ([\d.]+)% of/.exec(document.querySelector('main')?.innerText ?? '')?.[1]) > least, second);
assert.ok((await share()) < second + 15, `${second} ${await share()}`);
await finish();
