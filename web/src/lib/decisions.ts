// The user's own permanent decisions about tools.

import { call, get, part } from './api';
import type { Decision, Decisions } from './generated/api';

export type { Decision };
/** `ask` and `deny` are stricter than a policy that allows a tool; `allow` answers a policy that asks. */
export type Choice = 'ask' | 'deny' | 'allow';

const address = (server: string, tool: string): string => `/api/decisions/${part(server)}/${part(tool)}`;

export const list = async (): Promise<Decision[]> => (await get<Decisions>('/api/decisions')).decisions;

export const decide = (server: string, tool: string, decision: Choice): Promise<Decision> =>
  call<Decision>('PUT', address(server, tool), { decision });

/** Takes back all decisions about a tool, or the one about the arguments with this digest. */
export const takeBack = (server: string, tool: string, digest?: string | null): Promise<void> =>
  call('DELETE', address(server, tool) + (digest ? `?arguments=${part(digest)}` : ''));
