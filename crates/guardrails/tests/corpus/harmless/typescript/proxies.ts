const defaults = new Proxy({} as Record<string, number>, { get: (target, key) => target[key as string] ?? 0 });
defaults.a += 2;
console.log(defaults.a, Reflect.has(defaults, "a"), Reflect.ownKeys({ x: 1 }));
