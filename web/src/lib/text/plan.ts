// What the list of a plan says.

const counted = (number: number, thing: string): string => `${number} ${thing}${number === 1 ? '' : 's'}`;

export const plan = {
  title: (effects: number) => `Plan: ${counted(effects, 'effect')}`,
  lead: 'None of this has happened. Tick what should happen, and run it.',
  run: (effects: number) => `Run ${counted(effects, 'effect')}`,
  running: 'Running…',
  enter: 'Press Space, or click, to run the plan. Enter alone does not.',
  choose: (what: string) => `Include ${what}`,
  file: (path: string, change: string) => `File ${path} (${change})`,
  asks: 'needs your approval',
  reads: 'reads, after an effect',
  preview: 'What the tool says it would do',
  result: 'Result',
  uses: (numbers: number[]) => `Uses the result of ${numbers.join(', ')}`,
  blocked: (why: string) => `Cannot be run: ${why}`,
  based: (reads: number) => `Based on ${counted(reads, 'read')}, repeated before the plan runs.`,
  effects: { planned: '', begun: 'may have happened', done: 'done', failed: 'failed', left_out: 'left out' },
  states: {
    open: 'Waits for your approval',
    expired: 'Expired',
    running: 'Running',
    done: 'Done',
    failed: 'Stopped at an effect that failed',
    changed: 'Not run: something has changed',
    interrupted: 'Interrupted',
  },
};
