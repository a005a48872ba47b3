const pattern = /^(?<date>\d{4}-\d{2}-\d{2})T[^ ]+ (?<level>ERROR|WARN) (?<text>.*)$/gm;
for (const match of read_file("app.log").matchAll(pattern)) {
  console.log(match.groups?.date, match.groups?.level, match.groups?.text.slice(0, 40));
}
