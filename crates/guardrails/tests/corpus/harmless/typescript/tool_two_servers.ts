import { find_customer } from "servers/crm";
import { list_invoices } from "servers/billing";

const customer = await find_customer({ email: "ann@example.org" });
const invoices = await list_invoices({ customer: customer.id });
console.log(invoices.filter((one) => one.days_overdue > 30).reduce((sum, one) => sum + one.amount, 0));
