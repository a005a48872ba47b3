// Copy customers from one server to another. Neither the model nor this program sees their data.
import { read_text_file as readFromCrm, write_file } from "servers/crm";
import { read_text_file } from "servers/files";

const customers = JSON.parse((await read_text_file({ path: "customers.json" })).content);
const cards = customers.map((customer) => `${customer.id}: ${customer.email}, ${customer.phone}\n`).join("");
await write_file({ path: "customers.txt", content: cards });

const hidden = customers.filter((customer) => customer.email.startsWith("[EMAIL_")).length;
// The file has the data itself. What comes back from the server are the same tokens.
const isSame = (await readFromCrm({ path: "customers.txt" })).content === cards;
console.log(`${customers.length} customers, ${hidden} with hidden addresses, stored as they are: ${isSame}`);
