const settings = await import("./settings.json");
console.log(settings.default.name);
