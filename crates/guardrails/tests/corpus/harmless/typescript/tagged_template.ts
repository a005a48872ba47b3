const sql = (parts: TemplateStringsArray, ...values: unknown[]) => ({
  text: parts.reduce((text, part, index) => text + `$${index}` + part),
  values,
});
console.log(sql`SELECT * FROM users WHERE id = ${7} AND name = ${"Ann"}`);
