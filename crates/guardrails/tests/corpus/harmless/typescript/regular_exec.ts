const word = /\b(\w+)\b/g;
let match: RegExpExecArray | null;
const counts: Record<string, number> = {};
while ((match = word.exec("a b a c")) !== null) counts[match[1]] = (counts[match[1]] || 0) + 1;
console.log(counts);
