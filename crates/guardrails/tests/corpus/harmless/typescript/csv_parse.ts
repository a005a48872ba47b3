const [header, ...lines] = read_file("sales.csv").trim().split(/\r?\n/);
const columns = header.split(",");
const rows = lines.map((line) => Object.fromEntries(line.split(",").map((cell, index) => [columns[index], cell])));
console.log(rows.filter((row) => Number(row.amount) > 100).length);
