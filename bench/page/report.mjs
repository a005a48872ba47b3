// Figures as text.

/** The value that this part of all values is not above. */
export function percentile(values, part) {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
}

/** A phase in figures. */
export function figures({ tasks, delays, times }) {
  return {
    long_tasks: tasks.length,
    longest_task_ms: Math.round(Math.max(0, ...tasks)),
    ...(times.length === 0
      ? {}
      : { busy_tasks: times.filter((time) => time > 50).length, busiest_task_ms: Math.round(times.reduce((most, time) => Math.max(most, time), 0)) }),
    ...(delays.length === 0
      ? {}
      : { keys: delays.length, typing_p50_ms: Math.round(percentile(delays, 0.5)), typing_p95_ms: Math.round(percentile(delays, 0.95)) }),
  };
}

const MIB = 1024 * 1024;

/** The result for people. */
export function asText(result) {
  const phase = (name, one) => {
    const tasks = `${one.long_tasks} over 50 ms, the longest ${one.longest_task_ms || '-'} ms`;
    const typing = one.keys ? `; typing p50 ${one.typing_p50_ms} ms, p95 ${one.typing_p95_ms} ms (${one.keys} keys)` : '';
    const busy = 'busy_tasks' in one ? `; of processor time ${one.busy_tasks}, the longest ${one.busiest_task_ms} ms` : '';
    return `${name.padEnd(28)}${tasks}${busy}${typing}`;
  };
  return [
    `${result.messages} messages, ${result.tokens_per_second} tokens/s (wanted ${result.wanted_tokens_per_second}), ${result.browser}`,
    `load of the machine         ${result.load_before} before, ${result.load_after} after`,
    `conversation shown after    ${result.shown_ms} ms`,
    phase('while it loads', result.loading),
    phase('stream, as opened', result.stream),
    phase('all messages are loaded', result.paging),
    phase('scrolling through all', result.scrolling),
    phase('stream, all were loaded', result.stream_after_paging),
    `heap after each ${String(result.answers_per_sample).padEnd(3)} answers   ${result.heap_bytes.map((bytes) => (bytes / MIB).toFixed(1)).join(', ')} MiB`,
    `elements at the same times  ${result.elements.join(', ')}`,
  ].join('\n');
}
