// Writes the types of the API, from its OpenAPI document, to `src/lib/generated/api.ts`.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const { components } = JSON.parse(readFileSync(path('../../docs/openapi.json'), 'utf8'));
const PREFIX = '#/components/schemas/';

/** Parts of a union or of an intersection. */
function joined(parts, sign) {
  const unique = [...new Set(parts)];
  return unique.length > 1 ? `(${unique.join(` ${sign} `)})` : (unique[0] ?? 'unknown');
}

/** The type of a schema. Schemas that say nothing about a value are `unknown`. */
function typeOf(schema) {
  if (schema === true) return 'unknown';
  if (schema === false) return 'never';
  if (schema.$ref !== undefined) {
    const name = schema.$ref.slice(PREFIX.length);
    if (!schema.$ref.startsWith(PREFIX) || !(name in components.schemas)) throw new Error(`cannot resolve ${schema.$ref}`);
    return name;
  }
  const union = schema.oneOf ?? schema.anyOf;
  if ((union ?? schema.allOf) && schema.properties) throw new Error('a schema has fields beside its parts');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return joined(schema.enum.map((value) => JSON.stringify(value)), '|');
  if (union) return joined(union.map(typeOf), '|');
  if (schema.allOf) return joined(schema.allOf.map(typeOf), '&');
  const kinds = [schema.type ?? (schema.properties ? 'object' : [])].flat();
  return joined(kinds.map((kind) => typeOfKind(kind, schema)), '|');
}

function typeOfKind(kind, schema) {
  switch (kind) {
    case 'integer':
      return 'number';
    case 'array':
      return `${typeOf(schema.items ?? true)}[]`;
    case 'object':
      return objectType(schema);
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return kind;
    default:
      throw new Error(`unknown type ${JSON.stringify(kind)}`);
  }
}

function objectType({ properties, required = [], additionalProperties }) {
  if (!properties) return `Record<string, ${typeOf(additionalProperties || true)}>`;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const isPlain = /^[A-Za-z_]\w*$/.test(name);
    return `${isPlain ? name : JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${typeOf(schema)}`;
  });
  return `{ ${fields.join('; ')} }`;
}

const lines = Object.entries(components.schemas).map(([name, schema]) => `export type ${name} = ${typeOf(schema)};\n`);
mkdirSync(path('../src/lib/generated/'), { recursive: true });
writeFileSync(path('../src/lib/generated/api.ts'), `// Generated from the OpenAPI document. Do not edit.\n\n${lines.join('')}`);
