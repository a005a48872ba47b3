// What the card of an execution says about its sandbox.

import { count, duration, size } from '../format';

const MEGABYTE = 1_000_000;

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
