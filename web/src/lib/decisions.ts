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

export const takeBack = (server: string, tool: string): Promise<void> => call('DELETE', address(server, tool));
