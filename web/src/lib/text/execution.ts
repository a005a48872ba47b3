// What the card of an execution says about its sandbox.

import type { Sandbox } from '../executions';
import { count, duration, size } from '../format';

const MEGABYTE = 1_000_000;
/** Ways in which a limit may not be enforced. */
const NONE = 'none';

export const execution = {
  details: 'Sandbox',
  detailsAndCalls: 'Sandbox and tool calls',
  unknown: 'The server has no record of this execution any more.',
  noCalls: 'No tool calls.',
  isolation: 'Isolation',
  tiers: {
    native: 'Native sandbox with all layers',
    'native-partial': 'Native sandbox; this system does not support all layers',
  } as Record<string, string>,
  /** One line about the sandbox of code that runs. */
  running: ({ session, session_restarted: restarted, limits }: Sandbox): string => {
    const { tiers, fresh, live, restarted: again } = execution;
    const state = session ? live(session) : fresh;
    const parts = [...(limits ? [tiers[limits.tier] ?? limits.tier] : []), ...(restarted ? [state, again] : [state])];
    if (limits) {
      const { wall_ms: time, memory_mb: memory, processes } = limits.requested;
      const unlimited = (mechanism: string | undefined): string => (mechanism === NONE ? ' (not enforced)' : '');
      parts.push(
        `at most ${duration(time)}${unlimited(limits.enforced?.wall)}, ${size(memory * MEGABYTE)}${unlimited(limits.enforced?.memory)}, ` +
          `${count(processes)} processes${unlimited(limits.enforced?.processes)}`,
      );
    }
    return parts.map((part) => part.replace(/\.$/, '')).join(' · ');
  },
  state: 'State',
  fresh: 'Fresh sandbox: variables are not kept',
  live: (name: string) => `Live session ${name}: variables are kept`,
  restarted: 'The interpreter was started again: earlier variables are gone.',
  took: 'Duration',
  tookValue: (ms: number, limit: number) => `${duration(ms)} of at most ${duration(limit)}`,
  memory: 'Memory',
  atMost: (megabytes: number) => `at most ${size(megabytes * MEGABYTE)}`,
  processes: 'Processes',
  calls: 'Tool calls',
  limit: (value: number) => `at most ${count(value)}`,
  enforced: {
    cgroup1: 'enforced by the kernel',
    cgroup2: 'enforced by the kernel',
    rlimit: 'enforced by the kernel',
    mount: 'enforced by the kernel',
    quota: 'enforced by the kernel',
    watch: 'measured repeatedly',
    host: 'enforced by the server',
    none: 'not enforced',
  } as Record<string, string>,
};
