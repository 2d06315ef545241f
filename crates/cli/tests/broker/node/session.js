// Calls of jackd (but pauseTube, which it sends without the end of its line) against the broker at a port; ends with an error where an answer is not what it should be.
const assert = require("assert");
const Client = require("jackd");

async function fails(promise, word) {
  await assert.rejects(promise, (error) => String(error.message).includes(word), word);
}

async function main() {
  const client = new Client();
  await client.connect({ host: "127.0.0.1", port: Number(process.argv[2]) });
  await client.use("node-jobs");
  await client.watch("node-jobs");
  assert.equal(await client.ignore("default"), 1);
  const id = await client.put({ hello: "wörld" }, { priority: 3, ttr: 5 });
  let job = await client.reserveWithTimeout(1);
  assert.equal(job.id, id);
  assert.deepEqual(JSON.parse(job.payload.toString()), { hello: "wörld" });
  await client.touch(id);
  await client.release(id, { priority: 3 });
  job = await client.reserve();
  await client.bury(id, 3);
  assert.equal((await client.peekBuried()).id, id);
  assert.equal(await client.kick(10), 1);
  assert.equal((await client.reserveJob(id)).id, id);
  assert.match(await client.statsJob(id), /\nreserves: 3\n/);
  await client.delete(id);
  await fails(client.peek(id), "NOT_FOUND");
  await fails(client.peekReady(), "NOT_FOUND");
  await fails(client.reserveWithTimeout(0), "TIMED_OUT");
  const later = await client.put("later", { delay: 100 });
  assert.equal((await client.peekDelayed()).id, later);
  await client.kickJob(later);
  assert.match(await client.statsTube("node-jobs"), /\ncurrent-jobs-ready: 1\n/);
  assert.match(await client.stats(), /\ntotal-jobs: 2\n/);
  assert.equal(await client.getCurrentTube(), "node-jobs");
  assert.match(await client.listTubesWatched(), /- node-jobs/);
  await fails(client.put(Buffer.alloc(65536)), "JOB_TOO_BIG");
  await fails(client.ignore("node-jobs"), "NOT_IGNORED");
  await client.quit();
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
