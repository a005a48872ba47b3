// expect: system-file
const pid = 1;
read_file(`/proc/${pid}/mem`);
