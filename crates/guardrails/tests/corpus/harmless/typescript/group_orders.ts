interface Order { customer: string; total: number }

const orders: Order[] = JSON.parse(read_file("orders.json"));
const totals = new Map<string, number>();
for (const { customer, total } of orders) {
  totals.set(customer, (totals.get(customer) ?? 0) + total);
}
console.log(Object.fromEntries([...totals].sort((a, b) => b[1] - a[1])));
