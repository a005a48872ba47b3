// Who uses the page, and with which models.

import { ApiError, get } from './api';
import type { Me } from './generated/api';
import { preferences } from './preferences.svelte';

export type { Me };

type Model = { id: string; context_window?: number | null; context_window_estimated?: boolean };

class Session {
  state = $state<'loading' | 'ready' | 'needs_link' | 'offline'>('loading');
  me = $state.raw<Me | null>(null);
  models = $state.raw<string[]>([]);
  /** Sizes of the contexts of models in tokens, as far as they are known. */
  #windows = $state.raw<ReadonlyMap<string, { size: number; isEstimated: boolean }>>(new Map());

  async load(): Promise<void> {
    this.state = 'loading';
    this.me = null;
    try {
      this.me = await get<Me>('/api/auth/me');
      await this.loadModels();
      this.state = 'ready';
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) {
        this.state = 'offline';
      } else if (this.me) {
        this.state = 'needs_link';
      } else {
        location.assign(`/sign-in?${new URLSearchParams({ next: '/' })}`);
      }
    }
  }

  /** Finds out whether this browser is still signed in; without users, a restart of the server ends that. */
  async check(): Promise<void> {
    try {
      await this.loadModels();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) await this.load();
    }
  }

  async loadModels(): Promise<void> {
    const { data } = await get<{ data: Model[] }>('/v1/models');
    this.models = data.map((model) => model.id);
    this.#windows = new Map(
      data.flatMap(({ id, context_window: size, context_window_estimated: isEstimated = false }) =>
        size ? [[id, { size, isEstimated }] as const] : [],
      ),
    );
  }

  /** The model for the next message: the chosen one, or the default of the server. */
  get model(): string {
    return this.models.includes(preferences.model) ? preferences.model : (this.models[0] ?? '');
  }

  /** Size of the context of that model in tokens; `null` if it is not known. */
  get contextWindow(): number | null {
    return this.#windows.get(this.model)?.size ?? null;
  }

  /** Whether that size is the usual one of the model, and not one that the settings name. */
  get isWindowEstimated(): boolean {
    return this.#windows.get(this.model)?.isEstimated ?? false;
  }
}

export const session = new Session();
