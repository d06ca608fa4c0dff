// A user's way through OpenPAI's client classes. Prints what each call answered as one JSON document.
// usage: node journey.js URL USER PASSWORD STORAGE, the job file on standard input
"use strict";

const { readFileSync } = require("node:fs");
const yaml = require("js-yaml");
const { OpenPAIClient } = require("@microsoft/openpai-js-sdk").PAIV2;

const [url, username, password, storage] = process.argv.slice(2);
const config = yaml.safeLoad(readFileSync(0, "utf8"));
const client = new OpenPAIClient({ rest_server_uri: `${url}/rest-server`, username, password, https: false });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function ended(name) {
  for (let tries = 0; tries < 240; tries++) {
    const job = await client.job.getJob(username, name);
    if (["SUCCEEDED", "FAILED", "STOPPED"].includes(job.jobStatus.state)) return job;
    await pause(250);
  }
  throw new Error(`${name} does not end`);
}

async function text(uri) {
  for (let tries = 0; ; tries++) {
    const answer = await fetch(uri);
    const body = await answer.text();
    if (body || tries === 40) return body;
    await pause(250);
  }
}

async function refusal(call) {
  try {
    return { refused: false, answer: await call() };
  } catch (error) {
    return { refused: true, type: error.constructor.name, status: error.status, code: error.data && error.data.code };
  }
}

(async () => {
  const told = {};
  told.info = await client.api.getClusterInfo();
  told.user = await client.user.getUser(username);
  told.virtualClusters = await client.virtualCluster.listVirtualClusters();
  told.storages = await client.storage.getStorages();
  told.storage = await client.storage.getStorage(storage);
  told.submitted = await client.job.createJob(config);
  told.again = await refusal(() => client.job.createJob(config));
  told.tagged = await client.job.addTag(username, config.name, "from the sdk");
  told.job = await ended(config.name);
  told.listed = await client.job.listJobs({ username, state: "SUCCEEDED", tagsContain: "from the sdk" });
  told.untagged = await client.job.deleteTag(username, config.name, "from the sdk");
  told.config = await client.job.getJobConfig(username, config.name);
  told.attempt = await client.job.getJob(username, config.name, 0);
  told.attempts = await client.jobHistory.getJobAttempts(username, config.name);
  told.task = await client.job.getTask(username, config.name, 0, Object.keys(config.taskRoles)[0], 0);
  const logs = await client.job.getTaskLogs(username, config.name, 0, Object.keys(config.taskRoles)[0], 0, 0);
  told.logs = {};
  for (const { name, uri } of logs.locations.filter((one) => one.name !== "all")) told.logs[name] = await text(uri);
  told.events = await client.job.listEvents(username, config.name);
  const waiting = { ...config, name: `${config.name}_stopped` };
  await client.job.createJob(waiting);
  told.stopped = await client.job.updateJobExecutionType(username, waiting.name, "STOP");
  told.stoppedJob = await ended(waiting.name);
  told.missing = await refusal(() => client.job.getJob(username, "no_such_job"));
  told.nodes = await refusal(() => client.kubernetes.getK8sNodes());
  told.application = await client.token.createApplicationToken();
  told.tokens = await client.token.getTokens();
  told.revoked = await client.token.deleteToken(told.application.token);
  told.left = await client.authn.basicLogout();
  console.log(JSON.stringify(told));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
