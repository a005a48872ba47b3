// The policy for a tool, which applies to all users.

import { call, part } from './api';
import type { ToolPolicy } from './generated/api';

/** The rule for exactly one tool; `default` if there is none, and other rules apply. */
export type Rule = 'default' | 'allow' | 'ask' | 'deny';

const STRICTNESS: Record<string, number> = { allow: 0, ask: 1, deny: 2 };

/** Whether code may do more with another rule, or might. */
export function isLooser(rule: Rule, { decision }: ToolPolicy): boolean {
  // Without its rule, a tool may have any policy.
  const strictness = rule === 'default' ? 0 : (STRICTNESS[rule] ?? 0);
  return strictness < (STRICTNESS[decision] ?? 0);
}

export function set(server: string, tool: string, rule: Rule): Promise<ToolPolicy> {
  const address = `/api/policy/${part(server)}/${part(tool)}`;
  return rule === 'default' ? call('DELETE', address) : call('PUT', address, { decision: rule });
}
