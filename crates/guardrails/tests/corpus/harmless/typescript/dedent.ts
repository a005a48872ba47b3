const text = `
  # Title
    indented
  end
`;
const lines = text.split("\n").filter((line) => line.trim());
const indent = Math.min(...lines.map((line) => line.length - line.trimStart().length));
console.log(lines.map((line) => line.slice(indent)).join("\n"));
