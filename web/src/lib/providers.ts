// Keys of model providers that belong to the user.

import { call, get, part } from './api';
import type { Providers } from './generated/api';
import { session } from './session.svelte';

export type { Providers };

export const list = (): Promise<Providers> => get<Providers>('/api/providers');

export async function setKey(provider: string, key: string): Promise<void> {
  await call('PUT', `/api/providers/${part(provider)}/key`, { key });
  await session.loadModels();
}

export async function removeKey(provider: string): Promise<void> {
  await call('DELETE', `/api/providers/${part(provider)}/key`);
  await session.loadModels();
}

/** Sets the first key. It is not kept if the provider lists no models with it. Returns whether it was kept. */
export async function tryKey(provider: string, key: string): Promise<boolean> {
  await setKey(provider, key);
  if (session.models.some((model) => model.startsWith(`${provider}/`))) return true;
  await removeKey(provider);
  return false;
}
