// Copy a spreadsheet of customers into the database of a CRM. Neither the model nor this program sees their data.
import { create_table, write_query } from "servers/crm";
import { read_text_file } from "servers/files";

const { content } = await read_text_file({ path: "customers.csv" });
const [columns, ...customers] = content.trim().split("\n").map((line) => line.split(";"));
await create_table({ query: `CREATE TABLE customers (${columns.map((name) => `${name} TEXT`).join(", ")})` });
for (const customer of customers) {
  // The values are tokens. The server gets what they stand for.
  const values = customer.map((value) => `'${value}'`).join(", ");
  await write_query({ query: `INSERT INTO customers VALUES (${values})` });
}

const names = new Set(customers.map((customer) => customer[1]));
console.log(`${customers.length} customers with ${names.size} different names`);
columns.forEach((name, place) => console.log(`${name}: ${customers[0][place].replace(/_[0-9a-f]{16}]/, "_…]")}`));
