const people = [{ name: "Zoe", age: 30 }, { name: "Ann", age: 30 }, { name: "Bo", age: 25 }];
people.sort((a, b) => a.age - b.age || a.name.localeCompare(b.name));
result = people.map(({ name }) => name);
