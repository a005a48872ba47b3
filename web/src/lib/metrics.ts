// Metrics of the server, in the text format of OpenMetrics.

export type Sample = { name: string; labels: Record<string, string>; value: number };

/** Maximum number of lines that are read. */
const MAX_LINES = 5_000;

export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n', MAX_LINES)) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found?.[1]) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      if (name) labels[name] = (value ?? '').replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
    }
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

/** The sum of a metric over its labels. */
export const total = (samples: Sample[], name: string): number =>
  samples.filter((sample) => sample.name === name).reduce((sum, sample) => sum + sample.value, 0);

/** The sums of a metric by one of its labels, the highest first. */
export function by(samples: Sample[], name: string, label: string): [string, number][] {
  const sums = new Map<string, number>();
  for (const sample of samples.filter((one) => one.name === name)) {
    const key = sample.labels[label] ?? '';
    sums.set(key, (sums.get(key) ?? 0) + sample.value);
  }
  return [...sums].toSorted((one, other) => other[1] - one[1]);
}

/** The counts between the limits of a histogram, whose own counts are cumulative. */
export function buckets(samples: Sample[], name: string): { limit: number; count: number }[] {
  const found = samples
    .filter((sample) => sample.name === `${name}_bucket`)
    .map(({ labels, value }) => ({ limit: labels.le === '+Inf' ? Infinity : Number(labels.le), value }))
    .toSorted((one, other) => one.limit - other.limit);
  return found.map(({ limit, value }, index) => ({ limit, count: value - (found[index - 1]?.value ?? 0) }));
}
