// pg-boss for bench/queues.py; roles and lines are those of main.go.
//
// So many workers are loops that take up to 16 jobs at once, go on while they get as many, and are woken by NOTIFY.

import { writeSync } from "node:fs";
import { PgBoss } from "pg-boss";

const LEASE = 10;
const BATCH = 16;
const PADDING = "x".repeat(180);

const [role, target, ...words] = process.argv.slice(2);
const numbers = words.map(Number);
const now = () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e3)) * 1000n;
const event = (kind, id, at) => writeSync(1, `${kind} ${id} ${at}\n`);
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const boss = new PgBoss({
  connectionString: target,
  max: 20,
  schedule: false,
  supervise: role === "work",
  superviseIntervalSeconds: 1,
  monitorIntervalSeconds: 1,
  useListenNotify: role === "work",
});
boss.on("error", (failure) => console.error("pg-boss:", failure.message));
await boss.start();

async function putOne(id, due) {
  try {
    await boss.send("jobs", { id, padding: PADDING });
    event("e", id, due);
  } catch (failure) {
    console.error("put:", failure.message);
    event("x", id, due);
  }
}

async function put(first, rate, seconds) {
  const begun = performance.now();
  const all = [];
  for (let n = 0; n < rate * seconds; n += 1) {
    const wait = begun + (n / rate) * 1000 - performance.now();
    if (wait > 0) await sleep(wait);
    all.push(putOne(first + n, now()));
  }
  await Promise.all(all);
}

async function fill(first, count) {
  for (let at = first; at < first + count; at += 1000) {
    const many = Array.from({ length: Math.min(1000, first + count - at) }, (_, n) => ({ data: { id: at + n, padding: PADDING } }));
    await boss.insert("jobs", many);
  }
}

async function handle({ data }, takes) {
  event("s", data.id, now());
  if (takes > 0) await sleep(takes);
  event("d", data.id, now());
}

if (role === "setup") {
  await boss.createQueue("jobs", { partition: true, notify: true, expireInSeconds: LEASE, retryLimit: 10 });
} else if (role === "fill") {
  await fill(...numbers);
} else if (role === "put") {
  await put(...numbers);
} else {
  const [workers, takes] = numbers;
  const batchSize = Math.min(workers, BATCH);
  const options = { batchSize, localConcurrency: workers / batchSize, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 };
  await boss.work("jobs", options, (jobs) => Promise.all(jobs.map((job) => handle(job, takes))));
  writeSync(1, "r\n");
  await new Promise(() => {});
}
await boss.stop({ graceful: false });
process.exit(0);
