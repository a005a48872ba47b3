// Numbers, sizes and times as people read them, in the language and the time zone of the browser.

const numbers = new Intl.NumberFormat();

export const count = (value: number): string => numbers.format(value);

/** A share between 0 and 1. */
export const percent = (share: number): string =>
  new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: share < 0.01 ? 1 : 0 }).format(share);

export function size(bytes: number): string {
  if (bytes < 1000) return `${count(bytes)} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const plainDay = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
const long = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** A time as short as it can be understood. */
export function moment(date: Date, now = new Date()): string {
  return date.toDateString() === now.toDateString() ? clock.format(date) : day.format(date);
}

/** A day of which only the date is known, such as `2026-11-18`. It is the same in every time zone. */
export const dateOnly = (date: string): string => plainDay.format(new Date(date));

export const dateTime = (date: Date): string => long.format(date);
