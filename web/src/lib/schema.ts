// Forms from JSON Schema: simple fields are fields, everything else is written as JSON. The server checks the arguments
// against the whole schema, so a form only has to help.

import { tools as text } from './text/tools';

type Schema = Record<string, unknown>;
type Kind = 'string' | 'number' | 'integer' | 'boolean';
export type Field = {
  name: string;
  label: string;
  description: string;
  isRequired: boolean;
  kind: Kind | 'choice' | 'list' | 'json';
  /** Kind of the items of a list. */
  item: Kind;
  choices: unknown[];
  isLong: boolean;
  /** What is in the field at first. */
  initial: string;
  minimum: number | null;
  maximum: number | null;
  /** What JSON has to be. */
  shape: 'object' | 'array' | null;
};

/** Limits for schemas of servers, which may be anything. */
const MAX_FIELDS = 100;
const MAX_CHOICES = 200;
const MAX_DEPTH = 8;

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null && !Array.isArray(value);
const isKind = (value: unknown): value is Kind => ['string', 'number', 'integer', 'boolean'].includes(value as string);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Follows references, and leaves out that a value may be null. */
function resolved(schema: unknown, root: Schema, depth = 0): Schema {
  if (!isSchema(schema) || depth > MAX_DEPTH) return {};
  if (typeof schema.$ref === 'string') {
    const names = schema.$ref.startsWith('#/') ? schema.$ref.slice(2).split('/') : [];
    const found = names.reduce<unknown>((value, name) => (isSchema(value) ? value[name] : undefined), root);
    return { ...resolved(found, root, depth + 1), ...schema, $ref: undefined };
  }
  for (const key of ['anyOf', 'oneOf']) {
    const variants = schema[key];
    if (!Array.isArray(variants)) continue;
    const others = variants.filter((one) => !isSchema(one) || one.type !== 'null');
    if (others.length === 1) return { ...resolved(others[0], root, depth + 1), ...schema, [key]: undefined };
  }
  if (Array.isArray(schema.type)) {
    const others = schema.type.filter((one) => one !== 'null');
    return { ...schema, type: others.length === 1 ? others[0] : undefined };
  }
  return schema;
}

function fieldOf(name: string, given: unknown, root: Schema, isRequired: boolean): Field {
  const schema = resolved(given, root);
  const items = resolved(schema.items, root);
  const field: Field = {
    name,
    label: name,
    description: textOf(schema.description) || textOf(schema.title),
    isRequired,
    kind: 'json',
    item: 'string',
    choices: [],
    isLong: false,
    initial: '',
    minimum: typeof schema.minimum === 'number' ? schema.minimum : null,
    maximum: typeof schema.maximum === 'number' ? schema.maximum : null,
    shape: null,
  };
  if (Array.isArray(schema.enum) && schema.enum.length <= MAX_CHOICES) {
    field.kind = 'choice';
    field.choices = schema.enum;
    const index = schema.enum.indexOf(schema.default);
    field.initial = index >= 0 ? String(index) : '';
    return field;
  }
  if (isKind(schema.type)) {
    field.kind = schema.type;
    field.isLong = schema.type === 'string' && Number(schema.maxLength ?? 0) > 200;
    field.initial = schema.default === undefined || schema.default === null ? '' : String(schema.default);
    return field;
  }
  if (schema.type === 'array' && isKind(items.type) && !items.enum) {
    field.kind = 'list';
    field.item = items.type;
    if (Array.isArray(schema.default)) field.initial = schema.default.join('\n');
    return field;
  }
  field.shape = schema.type === 'object' ? 'object' : schema.type === 'array' ? 'array' : null;
  if (schema.default !== undefined && schema.default !== null) field.initial = JSON.stringify(schema.default, null, 2);
  return field;
}

/** The fields of the arguments of a tool; `null` if they cannot be told, and have to be written as JSON. */
export function fieldsOf(given: unknown): Field[] | null {
  if (!isSchema(given)) return null;
  const schema = resolved(given, given);
  const properties = schema.properties;
  if (properties === undefined && schema.additionalProperties !== true && !schema.anyOf && !schema.oneOf && !schema.allOf) {
    return [];
  }
  if (!isSchema(properties) || Object.keys(properties).length > MAX_FIELDS) return null;
  const required: unknown[] = Array.isArray(schema.required) ? schema.required : [];
  const fields = Object.entries(properties).map(([name, one]) => fieldOf(name, one, given, required.includes(name)));
  return fields.toSorted((one, other) => Number(other.isRequired) - Number(one.isRequired));
}

/** The field for arguments that are written as one JSON object. */
export const wholeField = (): Field => ({ ...fieldOf('', {}, {}, true), shape: 'object', initial: '{}' });

/** An error in a field, with the text for people. */
class Invalid extends Error {}

function simple(kind: Kind, given: string, field: Field): unknown {
  if (kind === 'string') return given;
  if (kind === 'boolean') {
    if (given !== 'true' && given !== 'false') throw new Invalid(text.problems.boolean);
    return given === 'true';
  }
  const value = Number(given);
  if (given.trim() === '' || !Number.isFinite(value)) throw new Invalid(text.problems.number);
  if (kind === 'integer' && !Number.isInteger(value)) throw new Invalid(text.problems.integer);
  if (field.minimum !== null && value < field.minimum) throw new Invalid(text.problems.minimum(field.minimum));
  if (field.maximum !== null && value > field.maximum) throw new Invalid(text.problems.maximum(field.maximum));
  return value;
}

function valueOf(field: Field, given: string): unknown {
  if (field.kind === 'choice') return field.choices[Number(given)];
  if (field.kind === 'list') {
    return given.split('\n').filter((line) => line.trim()).map((line, index) => {
      try {
        return simple(field.item, line, { ...field, minimum: null, maximum: null });
      } catch (error) {
        throw new Invalid(text.problems.line(index + 1, (error as Error).message));
      }
    });
  }
  if (field.kind !== 'json') return simple(field.kind, given, field);
  let value: unknown;
  try {
    value = JSON.parse(given);
  } catch {
    throw new Invalid(text.problems.json);
  }
  if (field.shape === 'object' && !isSchema(value)) throw new Invalid(text.problems.object);
  if (field.shape === 'array' && !Array.isArray(value)) throw new Invalid(text.problems.array);
  return value;
}

/** The value in a field: `undefined` if there is none, or what is wrong with it. */
export function read(field: Field, given: string): { value: unknown } | { problem: string } {
  if (given === '' || (field.kind !== 'string' && given.trim() === '')) {
    return field.isRequired ? { problem: text.problems.required } : { value: undefined };
  }
  try {
    return { value: valueOf(field, given) };
  } catch (error) {
    if (error instanceof Invalid) return { problem: error.message };
    throw error;
  }
}
