// expect: system-file
const folder = "/var/run";
read_file(folder + "/docker.sock");
