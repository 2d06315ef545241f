#!/usr/bin/env python3
"""Asks libmemcached, twemproxy and mcrouter where they place keys, and writes the answers down for the tests of placement.

    scripts/golden-placement.py [MCROUTER'S SOURCE]

libmemcached (Debian: libmemcached11) is asked through its library. twemproxy (Debian: nutcracker) is run before one scripted
server for each address in its lists, which answers every `get` with its own address; loopback addresses only. mcrouter is not packaged: where its source is at hand, the file with its hash function is compiled and asked.
Writes keys.txt, one key a line with bytes above 0x7e and '%' as %XX, and one JSON file a program: a list of lists of servers, each
with the digit (base 36) of the server that each key went to.
"""

import asyncio
import ctypes
import ctypes.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def make_keys():
    """Keys as people have them, of every length up to 40, some tagged, some beyond ASCII, and the longest."""
    draw = random.Random(1878)
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:./"
    keys = [b"memtier-%d" % draw.randrange(10**7) for _ in range(60)]
    keys += [b"user:%d:profile" % number for number in range(60)]
    keys += [bytes(draw.choice(letters) for _ in range(length)) for length in range(1, 41) for _ in range(4)]
    keys += [bytes(draw.choice(range(0x21, 0x100)) for _ in range(length)) for length in range(1, 31) for _ in range(2)]
    keys += [f"straße:{number}".encode() for number in range(20)]
    keys += [f"{{user{number}}}:{part}".encode() for number in range(20) for part in ("name", "cart")]
    keys += [b"{}", b"{}x", b"{a", b"a}", b"}a{", b"x{a}y{b}z", b"{{a}}", b"{}{a}", b"$a$b", b"$$", b"a$b$", b"{a}", b"a", b"$b$"]
    keys += [b"k" * 250, bytes(draw.choice(letters) for _ in range(250))]
    # 0x7f and the controls are no part of a key; 0x80 and above are.
    unique = dict.fromkeys(key for key in keys if not any(byte == 0x7F for byte in key))
    return list(unique)


def written(key):
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in key)


# ---- libmemcached ----------------------------------------------------------------------------------------------------

BEHAVIOR_HASH, BEHAVIOR_KETAMA, BEHAVIOR_DISTRIBUTION, BEHAVIOR_KETAMA_WEIGHTED = 2, 3, 9, 16
HASHES = {
    "one_at_a_time": 0, "md5": 1, "crc32": 2, "fnv1_64": 3, "fnv1a_64": 4, "fnv1_32": 5, "fnv1a_32": 6, "hsieh": 7,
    "murmur": 8, "jenkins": 9, "murmur3": 10,
}


class Libmemcached:
    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("memcached"))
        kit = ctypes.CDLL(ctypes.util.find_library("hashkit"))
        self.has = kit.libhashkit_has_algorithm
        self.has.restype = ctypes.c_bool
        library = self.library
        library.memcached_lib_version.restype = ctypes.c_char_p
        library.memcached_create.restype = ctypes.c_void_p
        library.memcached_create.argtypes = [ctypes.c_void_p]
        library.memcached_free.argtypes = [ctypes.c_void_p]
        library.memcached_behavior_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
        library.memcached_server_add_with_weight.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint16, ctypes.c_uint32]
        library.memcached_generate_hash.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        library.memcached_generate_hash.restype = ctypes.c_uint32
        self.version = library.memcached_lib_version().decode()

    def place(self, behaviors, servers, keys):
        client = self.library.memcached_create(None)
        for behavior, value in behaviors:
            code = self.library.memcached_behavior_set(client, behavior, value)
            assert code == 0, f"behavior {behavior} = {value}: code {code}"
        for host, port, weight in servers:
            code = self.library.memcached_server_add_with_weight(client, host.encode(), port, weight)
            assert code == 0, f"{host}:{port}: code {code}"
        placed = "".join(DIGITS[self.library.memcached_generate_hash(client, key, len(key))] for key in keys)
        self.library.memcached_free(client)
        return placed


def libmemcached(keys):
    program = Libmemcached()
    plain = [("10.0.0.1", 11211, 1), ("10.0.0.2", 11211, 1), ("10.0.0.3", 11212, 1), ("cache-4.example.com", 11211, 1)]
    ten = [(f"cache-{number}.example.com", 11211 + number % 3, 1) for number in range(10)]
    weighted = [("10.0.0.1", 11211, 1), ("10.0.0.2", 11211, 2), ("10.0.0.3", 11212, 3), ("cache-4", 11211, 10)]
    odd = [(f"10.1.0.{number}", 11211 + number % 2, weight) for number, weight in enumerate([1, 7, 3, 100, 41, 13, 2, 64, 5, 600])]
    answers = []

    def ask(distribution, hash_name, behaviors, servers):
        answers.append({
            "distribution": distribution, "hash": hash_name, "tag": None,
            "servers": [f"{host}:{port}:{weight}" for host, port, weight in servers],
            "placed": program.place(behaviors, servers, keys),
        })

    for name, number in HASHES.items():
        if not program.has(number):
            print(f"libmemcached {program.version} was built without {name}", file=sys.stderr)
            continue
        base = [(BEHAVIOR_HASH, number)]
        ask("modula", name, base, plain)
        ask("consistent", name, base + [(BEHAVIOR_DISTRIBUTION, 1)], plain)
        # The weighted behaviour sets the key's hash to md5; the one asked for is set after it.
        ask("ketama", name, [(BEHAVIOR_KETAMA_WEIGHTED, 1)] + base, ten)
    ask("consistent", "one_at_a_time", [(BEHAVIOR_KETAMA, 1)], ten)
    # A fifth of five times five is not one in single precision: with 25 equal servers each has four points less.
    equal = [(f"10.2.0.{number}", 11211, 1) for number in range(25)]
    for servers in (plain, weighted, odd, equal):
        ask("ketama", "md5", [(BEHAVIOR_KETAMA_WEIGHTED, 1)], servers)
    # A weight above 1 turns a ring without weights into one with them.
    ask("consistent", "one_at_a_time", [(BEHAVIOR_KETAMA, 1)], weighted)
    ask("consistent", "md5", [(BEHAVIOR_KETAMA, 1), (BEHAVIOR_HASH, 1)], odd)
    return {"program": f"libmemcached {program.version}", "answers": answers}


# ---- twemproxy -------------------------------------------------------------------------------------------------------

TWEMPROXY_HASHES = [
    "one_at_a_time", "md5", "crc16", "crc32", "crc32a", "fnv1_64", "fnv1a_64", "fnv1_32", "fnv1a_32", "hsieh", "murmur", "jenkins",
]


def pools():
    """Name, then hash, distribution, tag and servers in twemproxy's own words."""
    plain = [f"127.0.1.{number}:22121:1" for number in range(1, 4)]
    default_port = ["127.0.1.7:11211:1", "127.0.1.8:22121:1", "127.0.1.8:11211:1"]
    named = [f"127.0.1.{number}:22121:{weight} cache-{number}" for number, weight in enumerate([1, 2, 3, 4, 10], start=1)]
    odd = [f"127.0.1.{number}:22121:{weight}" for number, weight in enumerate([1, 7, 3, 100, 41, 13, 2, 64, 5, 600, 1, 1, 33], start=1)]
    equal = [f"127.0.1.{number}:22121:1" for number in range(1, 26)]
    for name in TWEMPROXY_HASHES:
        yield name, "ketama", None, plain
        yield name, "modula", None, named
    for servers in (default_port, named, odd, equal):
        yield "fnv1a_64", "ketama", None, servers
        yield "md5", "ketama", None, servers
    yield "murmur", "modula", None, odd
    yield "fnv1a_64", "ketama", "{}", named
    yield "jenkins", "modula", "$$", plain
    # It sorts servers by name, the shorter first.
    names = ["zeta", "a-long-name", "beta", "127", "alpha"]
    unsorted = [f"127.0.1.{number}:22121:{number} {name}" for number, name in enumerate(names, start=1)]
    yield "fnv1a_64", "modula", None, unsorted
    yield "fnv1a_64", "ketama", None, [f"/tmp/krarup-golden-{number}.socket:1" for number in range(4)]
    yield "fnv1a_64", "modula", None, [member.split(" ")[0] for member in reversed(odd)] + ["127.0.1.7:11211:3"]


async def twemproxy(keys):
    version = subprocess.run(["nutcracker", "-V"], capture_output=True, text=True, check=False)
    version = (version.stdout + version.stderr).split("nutcracker-")[1].split()[0]
    asked = list(pools())
    addresses = sorted({server.split(" ")[0].rsplit(":", 1)[0] for *_, servers in asked for server in servers})

    def answering(address):
        async def serve(reader, writer):
            while line := await reader.readline():
                key = line.split()[1]
                writer.write(b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(address), address.encode()))
            writer.close()
        return serve

    servers = []
    for address in addresses:
        if address.startswith("/"):
            servers.append(await asyncio.start_unix_server(answering(address), address))
        else:
            host, port = address.split(":")
            servers.append(await asyncio.start_server(answering(address), host, int(port)))
    with tempfile.TemporaryDirectory() as folder:
        config = []
        for number, (hash_name, distribution, tag, members) in enumerate(asked):
            config += [f"pool{number}:", f"  listen: {folder}/{number}", f"  hash: {hash_name}", f"  distribution: {distribution}"]
            config += [f'  hash_tag: "{tag}"'] if tag else []
            config += ["  servers:"] + [f"   - {member}" for member in members]
        path = pathlib.Path(folder, "nutcracker.yml")
        path.write_text("\n".join(config) + "\n")
        process = await asyncio.create_subprocess_exec(
            "nutcracker", "-c", path, "-o", f"{folder}/log", "-p", f"{folder}/pid", "-s", "22229", "-a", "127.0.1.1")
        answers = []
        try:
            for number, (hash_name, distribution, tag, members) in enumerate(asked):
                for _ in range(1000):
                    try:
                        reader, writer = await asyncio.open_unix_connection(f"{folder}/{number}")
                        break
                    except (FileNotFoundError, ConnectionRefusedError):
                        await asyncio.sleep(0.01)
                place = {member.split(" ")[0].rsplit(":", 1)[0]: DIGITS[at] for at, member in enumerate(members)}
                placed = ""
                for key in keys:
                    writer.write(b"get %s\r\n" % key)
                    header = await reader.readline()
                    assert header.startswith(b"VALUE " + key + b" "), header
                    placed += place[(await reader.readline()).decode().strip()]
                    assert await reader.readline() == b"END\r\n"
                writer.close()
                answers.append({"distribution": distribution, "hash": hash_name, "tag": tag, "servers": members, "placed": placed})
        finally:
            process.terminate()
            await process.wait()
    for server, address in zip(servers, addresses):
        server.close()
        if address.startswith("/"):
            pathlib.Path(address).unlink()
    return {"program": f"twemproxy {version}", "answers": answers}


def mcrouter(source, keys):
    """Pairs of a number of servers and the place of each key's."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/hash.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, "-I", source, f"{source}/mcrouter/lib/fbi/hash.c"], check=True)
        place = ctypes.CDLL(library).furc_hash
        place.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32]
        place.restype = ctypes.c_uint32
        return [[count, [place(key, len(key), count) for key in keys]] for count in (2, 3, 4, 5, 8, 17, 100, 1000)]


def main():
    folder = pathlib.Path(__file__).parent.parent / "crates/proxy/tests/placement"
    folder.mkdir(parents=True, exist_ok=True)
    keys = make_keys()
    (folder / "keys.txt").write_text("".join(f"{written(key)}\n" for key in keys))
    for name, golden in (("libmemcached", libmemcached(keys)), ("twemproxy", asyncio.run(twemproxy(keys)))):
        rows = ",\n".join(json.dumps(answer) for answer in golden["answers"])
        (folder / f"{name}.json").write_text(f'{{"program": "{golden["program"]}", "answers": [\n{rows}\n]}}\n')
        print(f"{golden['program']}: {len(golden['answers'])} lists of servers, {len(keys)} keys each")
    if len(sys.argv) > 1:
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in mcrouter(sys.argv[1], keys))
        (folder / "mcrouter.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
