// What the program in the sandbox has read. Its result is checked, since code in the sandbox is not trusted.

import { MAX_COLUMNS, MAX_ROWS, type Table } from '../table';

export type Block =
  | { kind: 'heading' | 'paragraph' | 'item'; level: number; text: string; slide: number }
  | { kind: 'table'; table: Table };

export type Problem = 'missing_package' | 'missing_file' | 'encrypted' | 'damaged';

export type Converted =
  | { kind: 'sheets'; sheets: { name: string; table: Table }[]; isCut: boolean }
  | { kind: 'document'; blocks: Block[]; isCut: boolean }
  | { kind: 'problem'; code: Problem; detail: string };

/** Maximum number of blocks of a document that are shown. */
const MAX_BLOCKS = 3_000;

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const amount = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0);
const texts = (value: unknown): string[] => list(value).slice(0, MAX_COLUMNS).map(text);

/** The name of a column of a spreadsheet: A to Z, then AA. */
function letters(column: number): string {
  return (column >= 26 ? letters(Math.floor(column / 26) - 1) : '') + String.fromCharCode(65 + (column % 26));
}

function sized(columns: string[], rows: string[][], found: Record<string, unknown>): Table {
  return {
    columns,
    rows: rows.map((row) => columns.map((_, column) => row[column] ?? '')),
    allRows: Math.max(rows.length, amount(found.all_rows)),
    allColumns: Math.max(columns.length, amount(found.all_columns)),
  };
}

/** Rows with their numbers, below the letters of the columns. */
function sheet(value: unknown, rowHeading: string): { name: string; table: Table } {
  const found = record(value);
  const rows = list(found.rows).slice(0, MAX_ROWS).map(record);
  const cells = rows.map((row) => texts(row.cells));
  const width = Math.max(0, ...cells.map((row) => row.length));
  const table = sized(Array.from({ length: width }, (_, column) => letters(column)), cells, found);
  return {
    name: text(found.name),
    table: {
      ...table,
      columns: [rowHeading, ...table.columns],
      rows: table.rows.map((row, index) => [String(amount(rows[index]?.number)), ...row]),
      allColumns: table.allColumns + 1,
    },
  };
}

function block(value: unknown): Block {
  const found = record(value);
  if (found.kind === 'table') {
    const [columns = [], ...rows] = list(found.rows).slice(0, MAX_ROWS).map(texts);
    const width = Math.max(columns.length, ...rows.map((row) => row.length));
    const headings = Array.from({ length: width }, (_, column) => columns[column] || letters(column));
    const table = sized(headings, rows, {
      all_rows: amount(found.all_rows) - 1,
      all_columns: found.all_columns,
    });
    return { kind: 'table', table };
  }
  const kind = found.kind === 'heading' || found.kind === 'item' ? found.kind : 'paragraph';
  return { kind, level: Math.min(9, amount(found.level)), text: text(found.text), slide: amount(found.slide) };
}

/** Reads the result; `null` if it is something else. */
export function read(value: unknown, name: string, rowHeading: string): Converted | null {
  const found = record(value);
  const isCut = found.is_cut === true;
  switch (found.kind) {
    case 'sheets':
      return { kind: 'sheets', sheets: list(found.sheets).map((one) => sheet(one, rowHeading)), isCut };
    case 'document':
      return { kind: 'document', blocks: list(found.blocks).slice(0, MAX_BLOCKS).map(block), isCut };
    case 'table': {
      const table = sized(texts(found.columns), list(found.rows).slice(0, MAX_ROWS).map(texts), found);
      return { kind: 'sheets', sheets: [{ name, table }], isCut };
    }
    case 'problem': {
      const codes: Problem[] = ['missing_package', 'missing_file', 'encrypted', 'damaged'];
      const code = codes.find((one) => one === found.code) ?? 'damaged';
      return { kind: 'problem', code, detail: text(found.detail) };
    }
    default:
      return null;
  }
}
