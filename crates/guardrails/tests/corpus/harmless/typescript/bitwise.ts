const crc = (text: string) => {
  let value = ~0;
  for (const one of text) {
    value ^= one.charCodeAt(0);
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return (~value >>> 0).toString(16);
};
console.log(crc("hello"));
