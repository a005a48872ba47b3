// The whole output of an execution, of which the model got only a part.

import { send } from './api';

/** Maximum number of bytes that are shown in the card. The rest is in the file. */
const MAX_SHOWN = 1 << 20;
const WORKSPACE = '/workspace/';

/** The path in the workspace of what code sees at this path; `null` if it is elsewhere. */
const inWorkspace = (file: string): string | null => (file.startsWith(WORKSPACE) ? file.slice(WORKSPACE.length) : null);

/** The view of the file in this page. */
export function viewOf(file: string): string | null {
  const path = inWorkspace(file);
  return path === null ? null : `#/files/workspace/${encodeURIComponent(path)}`;
}

/** Loads the beginning of the file, which is all of it unless it is very long. */
export async function load(file: string): Promise<{ text: string; isWhole: boolean }> {
  const query = new URLSearchParams({ path: inWorkspace(file) ?? file });
  const response = await send('GET', `/api/workspace/file?${query}`, undefined, { range: `bytes=0-${MAX_SHOWN - 1}` });
  const bytes = await response.arrayBuffer();
  const all = Number(/\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1] ?? bytes.byteLength);
  return { text: new TextDecoder().decode(bytes), isWhole: bytes.byteLength >= all };
}
