const rows = [{ name: "Ann", points: 3 }, { name: "Bo", points: 5 }];
const html = `<ul>${rows.map((row) => `<li>${row.name}: ${"*".repeat(row.points)}</li>`).join("")}</ul>`;
console.log(html);
