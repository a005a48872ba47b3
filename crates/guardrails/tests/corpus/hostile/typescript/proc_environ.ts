// expect: system-file
console.log(read_file("/proc/1/environ"));
