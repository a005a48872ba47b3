// Calls that wait for an approval: the user's own, in any conversation or program, and those of others that the user may
// approve as a member of a group.

import { get, part, post } from './api';
import type { Approval, Approvals as Listed } from './generated/api';

export type { Approval };
export type Decision = 'once' | 'session' | 'session_same_arguments' | 'always' | 'always_same_arguments' | 'refuse';

/** Time between two looks, in milliseconds. A stream would take one of the few connections of the browser. */
const INTERVAL = 15_000;
/** Hidden tabs, whose title says that a call waits, look at every so many of these times. */
const HIDDEN_EACH = 4;

class Approvals {
  open = $state.raw<Approval[]>([]);
  /** Those that wait for the user. The others wait for other people. */
  readonly pending = $derived(this.open.filter((one) => !one.approvers || one.approvers.can_approve));
  /** IDs of questions that the view asks itself. */
  here = $state.raw<ReadonlySet<string>>(new Set());

  /** Looks for open questions now and from time to time, less often while the page is hidden. */
  watch(): () => void {
    let skipped = 0;
    const look = (): void => {
      skipped = document.hidden ? (skipped + 1) % HIDDEN_EACH : 0;
      if (skipped === 0) void this.look();
    };
    look();
    const timer = setInterval(look, INTERVAL);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }

  async look(): Promise<void> {
    try {
      this.open = (await get<Listed>('/api/approvals?state=open')).approvals;
    } catch {
      // The next look may succeed; the run itself reports a lost connection.
    }
  }

  /** Questions that were answered or timed out, newest first. */
  async ended(limit: number): Promise<Approval[]> {
    return (await get<Listed>(`/api/approvals?state=ended&limit=${limit}`)).approvals;
  }

  show(id: string): Promise<Approval> {
    return get<Approval>(`/api/approvals/${part(id)}`);
  }

  async answer(id: string, decision: Decision): Promise<void> {
    try {
      await post(`/api/approvals/${part(id)}`, { decision });
    } finally {
      await this.look();
    }
  }
}

export const approvals = new Approvals();
