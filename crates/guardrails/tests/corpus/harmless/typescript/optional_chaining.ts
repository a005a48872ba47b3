const data = JSON.parse(read_file("profile.json"));
console.log(data?.user?.addresses?.[0]?.city ?? "unknown", data.callback?.(1));
