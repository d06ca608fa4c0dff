// NNI's training service for OpenPAI, asked line by line on standard input: `submit`, `show ID`, `cancel ID`. Each is
// answered by a line of JSON. An empty line ends it.
// usage: NODE_PATH=… node trials.js CONFIG GLOBALS-ARGUMENTS...
"use strict";

const readline = require("node:readline");
const config = JSON.parse(process.argv.splice(2, 1)[0]);
require("common/globals").initGlobals();
const { PAITrainingService } = require("training_service/pai/paiTrainingService");

const service = new PAITrainingService(config);
const running = service.run();
const lines = readline.createInterface({ input: process.stdin });
let sequence = 0;

async function answer(word, id) {
  if (word === "submit") {
    const parameters = { value: JSON.stringify({ lr: 0.1 }), index: 0 };
    return service.submitTrialJob({ sequenceId: sequence++, hyperParameters: parameters });
  }
  if (word === "cancel") await service.cancelTrialJob(id);
  return service.getTrialJob(id);
}

(async () => {
  for await (const line of lines) {
    if (!line) break;
    console.log(`told ${JSON.stringify(await answer(...line.split(" ")))}`);
  }
  await service.cleanUp();
  await running;
  process.exit(0);
})();
