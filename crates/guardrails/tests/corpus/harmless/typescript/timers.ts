const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
await wait(5);
const timer = setInterval(() => console.log("tick"), 10);
setTimeout(() => clearInterval(timer), 35);
