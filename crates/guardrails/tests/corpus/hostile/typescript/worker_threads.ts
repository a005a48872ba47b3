// expect: import
import { Worker } from "worker_threads";

new Worker("while (true) {}", { eval: true });
