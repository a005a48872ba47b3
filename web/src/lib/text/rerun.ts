// What the card of an execution says about running its code again.

export const rerun = {
  open: 'Edit and run',
  field: 'Code to run',
  note: 'Runs as your own code. The agent does not see the result.',
  inSession: 'In the same session, with its variables',
  run: 'Run',
  runTitle: 'Run (Ctrl+Enter)',
  running: 'Running…',
  stop: 'Stop',
  stopped: 'Stopped.',
  done: 'Your run: finished',
  failed: 'Your run: failed',
};
