"""pymemcache takes the broker's queues for keys, at the port named; ends with an exception where an answer is not what it should be."""

import sys

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

client = Client(("127.0.0.1", int(sys.argv[1])))
other = Client(("127.0.0.1", int(sys.argv[1])))
assert client.get("jobs") is None
assert client.set("jobs", b"first", noreply=False)
client.set("jobs", b"second\r\nline", noreply=True)
assert client.get("jobs/peek") == b"first"
assert client.get("jobs/open") == b"first"
assert other.get("jobs/open/t=10") == b"second\r\nline"
assert client.get("jobs/abort") is None
assert client.get("jobs") == b"first"
other.close()
assert client.get("jobs/t=5000") == b"second\r\nline"
for number in range(20):
    client.set("many", b"%d" % number, noreply=True)
for number in range(10):
    key = "many/close/open"
    assert client.get(key) == b"%d" % number
assert client.get("many/close") is None
assert client.gets("many") [0] == b"10"
assert client.get_many(["many", "none"]) == {"many": b"11"}
assert client.stats()[b"queue_many_items"] in (8, b"8")
assert client.delete("many", noreply=False)
assert not client.delete("nothing", noreply=False)
assert client.set("jobs/delay=100", b"later", noreply=False)
assert client.get("jobs") is None
try:
    client.incr("jobs", 1, noreply=False)
    raise AssertionError("a queue was counted up")
except MemcacheClientError:
    pass
assert client.version().count(b".") == 2
client.quit()
print("all is well")
