// A client that speaks only the binary protocol: what it is told when it asks for a key. Prints one line and ends.
'use strict';
const memjs = require('memjs');

const quiet = { log() {}, warn() {}, error() {} };
const client = memjs.Client.create('127.0.0.1:' + process.argv[2], { retries: 1, timeout: 5, logger: quiet });
client.get('a', (error, value) => {
  console.log(error ? 'error: ' + error.message : 'value: ' + value);
  client.close();
});
