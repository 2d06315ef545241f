"""A session with pymemcache, written down: what every operation returned or raised.

    pymemcache_session.py PORT

The same session with a memcached and with the proxy must be written down alike, line by line.
"""

import hashlib
import sys

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient

SERVER = ("127.0.0.1", int(sys.argv[1]))


def shown(value):
    """A value as a short text that differs where the value does."""
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(shown(one) for one in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {shown(value[key])}" for key in sorted(value, key=repr)) + "}"
    text = repr(value)
    return text if len(text) < 100 else f"{text[:20]}… {len(text)} {hashlib.sha256(text.encode()).hexdigest()}"


def tell(what, call):
    """Carries it out and writes it down. A unique is told as being one, because each server has its own."""
    try:
        value = call()
    except Exception as error:
        value = error
    if what.startswith("gets") and isinstance(value, tuple) and isinstance(value[1], bytes):
        value = (value[0], value[1].isdigit())
    print(f"{what} -> {shown(value)}")


VALUES = {
    "one": b"x",
    "empty": b"",
    "binary": bytes(range(256)) * 3,
    "lines": b"END\r\nVALUE x 0 1\r\nSTORED\r\n\r\n",
    "unicode": "Grüße, 世界".encode(),
    "4KiB": b"4" * 4096,
    "64KiB": bytes(range(256)) * 256,
    "almost 1MiB": b"m" * 1_048_000,
}


def storage(client, noreply):
    def call(what, operation, *arguments, **more):
        tell(f"{what} noreply={noreply}", lambda: getattr(client, operation)(*arguments, noreply=noreply, **more))

    for place, (name, value) in enumerate(VALUES.items()):
        key = f"value-{place}"
        call(f"set {name}", "set", key, value)
        tell(f"get {name}", lambda: client.get(key))
        tell(f"gets {name}", lambda: client.gets(key))
    call("set with flags", "set", "flags", b"f", flags=4294967295)
    tell("get with flags", lambda: client.raw_command(b"get flags", b"END\r\n"))
    call("set that expires", "set", "soon", b"x", expire=1000)
    call("set that has expired", "set", "gone", b"x", expire=-1)
    tell("get what has expired", lambda: client.get("gone"))
    call("add over something", "add", "flags", b"no")
    call("add", "add", "added", b"yes")
    call("replace", "replace", "added", b"replaced")
    call("replace nothing", "replace", "nothing", b"no")
    call("append", "append", "added", b" and after")
    call("prepend", "prepend", "added", b"before and ")
    call("append to nothing", "append", "nothing", b"no")
    call("prepend to nothing", "prepend", "nothing", b"no")
    tell("get what was put together", lambda: client.get("added"))
    call("touch", "touch", "added", 1000)
    call("touch nothing", "touch", "nothing", 1000)
    unique = client.gets("added")[1]
    call("cas", "cas", "added", b"swapped", unique)
    call("cas that is late", "cas", "added", b"late", unique)
    call("cas of nothing", "cas", "nothing", b"no", unique)
    tell("get what was swapped", lambda: client.get("added"))
    tell("gat", lambda: client.raw_command(b"gat 500 added nothing", b"END\r\n"))
    tell("gats", lambda: client.raw_command(b"gats 500 added nothing", b"END\r\n").split(b" ")[:4])
    tell("gat nothing", lambda: client.raw_command(b"gat 500 nothing", b"END\r\n"))
    call("set a number", "set", "number", b"10")
    call("incr", "incr", "number", 5)
    call("decr", "decr", "number", 100)
    call("incr over the end", "incr", "number", 2**64 - 1)
    call("incr once more", "incr", "number", 1)
    call("incr nothing", "incr", "nothing", 1)
    call("decr nothing", "decr", "nothing", 1)
    if not noreply:
        call("incr what is no number", "incr", "added", 1)
    tell("get a number", lambda: client.get("number"))
    many = {f"many-{place}": b"%d" % place for place in range(100)}
    call("set_many", "set_many", many)
    tell("get_many", lambda: client.get_many([*many, "nothing"]))
    tell("gets_many", lambda: sorted(client.gets_many(list(many)[:7])))
    call("delete", "delete", "many-0")
    call("delete nothing", "delete", "many-0")
    call("delete_many", "delete_many", [f"many-{place}" for place in range(50)])
    tell("get_many of what is left", lambda: sorted(client.get_many(list(many))))


def session(client, name):
    print(f"--- {name}")
    client.flush_all(noreply=False)
    for noreply in (False, True):
        storage(client, noreply)
        tell("flush_all", lambda: client.flush_all(noreply=noreply))
        tell("get after flush_all", lambda: client.get("added"))
    tell("get nothing", lambda: client.get("nothing"))
    tell("get nothing, with a default", lambda: client.get("nothing", default=7))
    tell("gets nothing", lambda: client.gets("nothing", default=7, cas_default=8))
    tell("get_many of nothing", lambda: client.get_many(["nothing", "naught"]))
    tell("get_many of no key", lambda: client.get_many([]))
    tell("a key of 250 bytes", lambda: client.set("k" * 250, b"long", noreply=False))
    tell("get it", lambda: client.get("k" * 250))
    tell("a key that is too long", lambda: client.get("k" * 251))
    tell("a key with a space", lambda: client.set("a b", b"x"))
    tell("a value that is too large", lambda: client.set("large", b"x" * (1 << 21), noreply=False))
    tell("get it", lambda: client.get("large"))
    tell("get after it", lambda: client.get("k" * 250))


tell_version = lambda version: version.split(b" ")[0]
client = Client(SERVER, timeout=20, connect_timeout=20, encoding="utf-8", allow_unicode_keys=True)
session(client, "one connection")
tell("version", lambda: tell_version(client.version()))
tell("stats", lambda: {name: type(value).__name__ for name, value in client.stats().items() if name in (
    b"pid", b"uptime", b"version", b"curr_connections", b"cmd_get", b"cmd_set", b"get_hits", b"get_misses", b"threads")})
tell("a key in letters of other people", lambda: client.set("ключ", b"x", noreply=False))
tell("get it", lambda: client.get("ключ"))
tell("quit", client.quit)
tell("get after quit, on a new connection", lambda: client.get("ключ"))
client.close()

objects = Client(SERVER, timeout=20, serde=serde.pickle_serde, default_noreply=False)
for thing in ("text", "Grüße, 世界", 17, -3.5, None, ["list", {"of": "things"}], b"bytes"):
    tell("set an object", lambda: objects.set("object", thing))
    tell("get an object", lambda: objects.get("object"))
objects.close()

pool = PooledClient(SERVER, max_pool_size=4, timeout=20)
for place in range(20):
    tell("pooled set", lambda: pool.set(f"pooled-{place}", b"%d" % place, noreply=False))
tell("pooled get_many", lambda: pool.get_many([f"pooled-{place}" for place in range(20)]))
pool.close()

hashed = HashClient([SERVER], timeout=20, use_pooling=True)
tell("hashed set_many", lambda: hashed.set_many({f"hashed-{place}": b"h" for place in range(30)}, noreply=False))
tell("hashed get_many", lambda: hashed.get_many([f"hashed-{place}" for place in range(30)]))
hashed.close()
