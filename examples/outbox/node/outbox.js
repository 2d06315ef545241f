// An outbox and a worker: `outbox.js shop URL ORDERS`, `outbox.js worker URL HOST:PORT`. See ../README.md.
const Jackd = require("jackd");
const { Client } = require("pg");

const CHECK_VIOLATION = "23514";
// Classes of errors that the message is at fault for: its data, or what it refers to.
const REFUSED = /^2[23]/;

// An order, its message and what it takes from stock are committed together, or nothing.
async function order(database) {
  await database.query("BEGIN");
  try {
    const { rows } = await database.query("INSERT INTO orders (goods) VALUES (1) RETURNING id");
    const body = JSON.stringify({ order: Number(rows[0].id) });
    await database.query("SELECT krarup.put($1, $2::text)", ["bills", body]);
    await database.query("UPDATE stock SET quantity = quantity - 1 WHERE goods = 1");
    await database.query("COMMIT");
  } catch (error) {
    await database.query("ROLLBACK");
    throw error;
  }
}

async function shop(database, orders) {
  let taken = 0;
  for (let number = 0; number < orders; number++) {
    try {
      await order(database);
      taken++;
    } catch (error) {
      if (error.code !== CHECK_VIOLATION) throw error;
    }
  }
  console.log(`${taken} orders taken, ${orders - taken} refused`);
}

async function reserve(queue) {
  try {
    return await queue.reserveWithTimeout(2);
  } catch (error) {
    if (String(error.message).includes("TIMED_OUT")) return null;
    throw error;
  }
}

function orderOf(payload) {
  try {
    const { order } = JSON.parse(payload.toString());
    return Number.isInteger(order) ? order : null;
  } catch {
    return null;
  }
}

async function worker(database, broker) {
  const [host, port] = broker.split(":");
  const queue = new Jackd();
  await queue.connect({ host, port: Number(port) });
  await queue.watch("bills");
  await queue.ignore("default");
  let done = 0;
  for (let job; (job = await reserve(queue)); ) {
    const order = orderOf(job.payload);
    if (order === null) {
      // It will not get better: kept for people to look at.
      await queue.bury(job.id);
      continue;
    }
    try {
      await database.query("INSERT INTO bills (order_id) VALUES ($1) ON CONFLICT DO NOTHING", [order]);
    } catch (error) {
      console.error(error.message);
      if (REFUSED.test(error.code)) {
        await queue.bury(job.id);
      } else {
        await queue.release(job.id, { delay: 5 });
      }
      continue;
    }
    await queue.delete(job.id);
    done++;
  }
  await queue.quit();
  console.log(`${done} messages done`);
}

async function main() {
  const [what, url, third] = process.argv.slice(2);
  const database = new Client({ connectionString: url });
  await database.connect();
  try {
    await (what === "shop" ? shop(database, Number(third)) : worker(database, third));
  } finally {
    await database.end();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
