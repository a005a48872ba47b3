// Plans: what code would change, until the user approves it.

import { get, part, post } from './api';

/** An effect of a plan. The document of the API does not describe it. */
export type Effect = {
  number: number;
  state: 'planned' | 'begun' | 'done' | 'failed' | 'left_out';
  uses?: number[];
  blocked?: string;
  result?: unknown;
  error?: string;
} & (
  | { kind: 'call'; server: string; tool: string; arguments: Record<string, unknown>; decision: string; reads?: boolean; preview?: unknown }
  | { kind: 'file'; path: string; change: 'created' | 'changed' | 'deleted'; bytes: number }
);

export type Plan = {
  id: string;
  state: 'open' | 'expired' | 'running' | 'done' | 'failed' | 'changed' | 'interrupted';
  execution_id: string;
  expires_at: string;
  effects: Effect[];
  reads: unknown[];
  changes?: string[];
};

class Plans {
  /** By execution. */
  #found = $state.raw<ReadonlyMap<string, Plan>>(new Map());
  #isLooking = false;
  #isStale = false;

  /** The plan that an execution has made. */
  of(execution: string): Plan | undefined {
    return this.#found.get(execution);
  }

  /** Looks for plans. Several calls at once cost one or two requests. */
  async look(): Promise<void> {
    this.#isStale = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      while (this.#isStale) {
        this.#isStale = false;
        const { plans } = await get<{ plans: Plan[] }>('/api/plans');
        this.#found = new Map(plans.map((plan) => [plan.execution_id, plan]));
      }
    } catch {
      // The next execution looks again.
    } finally {
      this.#isLooking = false;
    }
  }

  /** Runs effects of a plan. Only the user may cause this. */
  async run(plan: Plan, effects: number[]): Promise<void> {
    try {
      await post(`/api/plans/${part(plan.id)}/run`, { effects });
    } finally {
      await this.look();
    }
  }
}

export const plans = new Plans();
