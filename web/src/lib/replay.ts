// Replay of a session: its code runs again with the answers of tools that were recorded.

import { part, send } from './api';
import type { Replayed } from './generated/api';

export type { Replayed };

export async function replay(session: string, withFiles: boolean, signal: AbortSignal): Promise<Replayed> {
  const path = `/api/sessions/${part(session)}/replay`;
  const response = await send('POST', path, { with_files: withFiles }, {}, signal);
  return (await response.json()) as Replayed;
}
