const buffer = new ArrayBuffer(8);
new DataView(buffer).setFloat32(0, 1.5);
console.log([...new Uint8Array(buffer)], Float64Array.from([1, 2]).map((one) => one / 2));
