// What the package memcached does with a memcached at the port named: a line for each thing it finds.
'use strict';
const Memcached = require('memcached');
const client = new Memcached(`127.0.0.1:${process.argv[2]}`, { retries: 0, timeout: 10000, maxValue: 4 << 20 });
const say = (what, error, result) => {
  let text = result === undefined ? '-' : Buffer.isBuffer(result) ? result.toString('latin1') : JSON.stringify(result);
  if (text.length > 60) text = `${text.length} characters`;
  const why = error ? ` error ${String(error.message || error).replaceAll(process.argv[2], 'PORT').split('\n')[0]}` : '';
  console.log(`${what}${why} ${text}`);
};
const ask = (method, ...words) => new Promise((done) => {
  client[method](...words, (error, result) => {
    say(`${method} ${words[0]}`, error, result);
    done(result);
  });
});
(async () => {
  await ask('set', 'node-a', 'one', 0);
  await ask('get', 'node-a');
  await ask('get', 'node-nothing');
  await ask('set', 'node-object', { text: 'ключ', list: [1, 2, 3] }, 1000);
  await ask('get', 'node-object');
  await ask('set', 'node-buffer', Buffer.from([0, 13, 10, 255]), 0);
  await ask('get', 'node-buffer');
  await ask('add', 'node-a', 'x', 0);
  await ask('add', 'node-b', 'two', 0);
  await ask('replace', 'node-b', 'zwei', 0);
  await ask('replace', 'node-nothing', 'x', 0);
  await ask('append', 'node-b', '!');
  await ask('prepend', 'node-b', '> ');
  await ask('get', 'node-b');
  await ask('set', 'node-large', 'large\r\n'.repeat(100000), 0);
  await ask('get', 'node-large');
  const seen = await new Promise((done) => client.gets('node-a', (error, result) => done(result)));
  await ask('cas', 'node-a', 'first', seen.cas, 0);
  await ask('cas', 'node-a', 'second', seen.cas, 0);
  await ask('get', 'node-a');
  for (let number = 0; number < 40; number += 1) await ask('set', `node-many-${number}`, String(number), 0);
  const many = Array.from({ length: 41 }, (_, number) => `node-many-${number}`);
  const found = await new Promise((done) => client.getMulti(many, (error, result) => done(result)));
  for (const key of Object.keys(found).sort()) console.log(`  ${key} ${found[key]}`);
  await ask('set', 'node-number', '10', 0);
  await ask('incr', 'node-number', 90);
  await ask('decr', 'node-number', 1);
  await ask('incr', 'node-nothing', 1);
  await ask('incr', 'node-a', 1);
  await ask('touch', 'node-b', 1000);
  await ask('touch', 'node-nothing', 1000);
  await ask('del', 'node-b');
  await ask('del', 'node-b');
  await ask('get', 'node-b');
  client.end();
})();
