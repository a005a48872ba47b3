type Keys<T> = { [K in keyof T]: T[K] extends string ? K : never }[keyof T];
interface User { id: number; name: string; mail: string }
const keys: Keys<User>[] = ["name", "mail"];
console.log(keys satisfies string[]);
