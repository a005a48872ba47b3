// expect: dynamic-code
const worker = new Worker("/workspace/job.js");
worker.postMessage("start");
