// MCP servers of the settings.

import { call, get, part, post } from './api';
import type { NewServer, Server, Servers } from './generated/api';

export type { NewServer, Server, Servers };
/** A header or a variable of a new server. */
export type Pair = { key: number; name: string; value: string };

export const list = (): Promise<Servers> => get<Servers>('/api/servers');
export const add = (server: NewServer): Promise<Server> => post<Server>('/api/servers', server);
export const remove = (name: string): Promise<void> => call('DELETE', `/api/servers/${part(name)}`);

/** Pairs by name, without those that are empty. */
export const filled = (pairs: readonly Pair[]): Record<string, string> =>
  Object.fromEntries(pairs.filter(({ name }) => name.trim()).map(({ name, value }) => [name.trim(), value.trim()]));
