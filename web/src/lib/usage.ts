// What the user has used, and how much may be used.

import { get } from './api';
import type { TokenDay, Usage } from './generated/api';

export type { TokenDay, Usage };

export const usage = (): Promise<Usage> => get<Usage>('/api/me/usage');

const DAY = 24 * 60 * 60 * 1000;

/** The last days up to today, also those without tokens. Days begin at 00:00 UTC. */
export function lastDays(days: TokenDay[], number: number, now = Date.now()): TokenDay[] {
  const tokens = new Map(days.map((one) => [one.day, one.tokens]));
  return Array.from({ length: number }, (_, index) => {
    const day = new Date(now - (number - 1 - index) * DAY).toISOString().slice(0, 10);
    return { day, tokens: tokens.get(day) ?? 0 };
  });
}
