// The program under test, with a data folder of its own.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Starts the program with these settings, and returns when it has printed its sign-in link. */
export async function startServer(program, settings) {
  const home = mkdtempSync(join(tmpdir(), 'coracle-bench-page-'));
  const file = join(home, 'coracle.yaml');
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(settings));
  const child = spawn(program, ['up', '--port', '0', '--config', file], {
    env: { ...process.env, CORACLE_HOME: home, NO_PROXY: '127.0.0.1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = async () => {
    child.kill('SIGINT');
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  let said = '';
  child.stderr.setEncoding('utf8');
  const link = await new Promise((resolve, reject) => {
    child.stderr.on('data', (text) => {
      said += text;
      const found = /(http:\/\/\S+)\/sign-in\/\S+/.exec(said);
      if (found) resolve(found);
    });
    void ended.then((code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
  const key = readFileSync(join(home, 'api_key'), 'utf8').trim();
  return { base: link[1], link: link[0], key, stop };
}

/** Calls the API of the server. */
export async function call({ base, key }, method, path, body) {
  const response = await fetch(base + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}
