const users: { name: string; country?: string }[] = JSON.parse(read_file("users.json"));
write_file("by-country.json", JSON.stringify(Object.groupBy(users, (user) => user.country ?? "?"), null, 2));
console.log(list_files("."));
