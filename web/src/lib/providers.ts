// Keys of model providers that belong to the user.

import { call, get, part, post } from './api';
import type { KeyTrial, Providers } from './generated/api';
import { session } from './session.svelte';

export type { KeyTrial, Providers };

export const list = (): Promise<Providers> => get<Providers>('/api/providers');

export async function setKey(provider: string, key: string): Promise<void> {
  await call('PUT', `/api/providers/${part(provider)}/key`, { key });
  await session.loadModels();
}

export async function removeKey(provider: string): Promise<void> {
  await call('DELETE', `/api/providers/${part(provider)}/key`);
  await session.loadModels();
}

/** Asks the provider for its models with a key, which is not stored. */
export const tryKey = (provider: string, key: string): Promise<KeyTrial> =>
  post<KeyTrial>(`/api/providers/${part(provider)}/key/trial`, { key });
