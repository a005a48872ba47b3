const settings = { server: { host: "localhost", ports: [80, 443] }, debug: false };
const { server: { host, ports: [first, ...others] }, debug = true, mode = "plain" } = settings as any;
console.log(host, first, others, debug, mode);
