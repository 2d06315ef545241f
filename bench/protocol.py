#!/usr/bin/env python3
"""Which of memcached's text protocol each proxy speaks, asked byte for byte beside memcached itself.

Each exchange goes to one memcached and to every proxy, which has two memcached behind it, on a connection of its
own; an answer counts as the same if it has the same bytes (but for numbers that a server makes up). An exchange ends
when the value of a key, asked for behind it, comes back. memcached's own proxy stands before servers of its version
and is compared with one, the others with Debian's.

    cargo build --release && bench/protocol.py [--memcached-proxy PROGRAM] [--csv FILE]

Needs memcached and nutcracker (Debian's packages memcached and nutcracker).
"""

import argparse
import contextlib
import pathlib
import re
import socket
import tempfile

from proxies import ROOT, krarup_proxy, memcached, memcached_proxy, twemproxy, write_csv

END = b"VALUE the-end 0 3\r\nend\r\nEND\r\n"
STORED = b"set a 0 0 1\r\n1\r\nset b 5 0 2\r\nbb\r\n"
MANY = b" ".join(b"key-%d" % number for number in range(100))

# What is asked, the bytes sent before (whose answers do not count), and the bytes that are compared.
EXCHANGES = [
    ("get, found and not", STORED, b"get a\r\nget none\r\n"),
    ("get of several keys", STORED, b"get a none b\r\n"),
    ("get of 100 keys, in the order of the question", b"".join(b"set key-%d 0 0 1\r\nx\r\n" % n for n in range(100)), b"get " + MANY + b"\r\n"),
    ("get of a key twice", STORED, b"get a a\r\n"),
    ("gets", STORED, b"gets a b\r\n"),
    ("gat", STORED, b"gat 100 a b\r\n"),
    ("gats", STORED, b"gats 100 a\r\n"),
    ("set, and noreply", b"", b"set n 1 0 2 noreply\r\nok\r\nget n\r\nset n 2 0 1\r\nx\r\n"),
    ("set of a value with line ends", b"", b"set lines 0 0 9\r\nab\r\nEND\r\n\r\nget lines\r\n"),
    ("set of an empty value", b"", b"set empty 0 0 0\r\n\r\nget empty\r\n"),
    ("set of 1,000,000 bytes", b"", b"set large 0 0 1000000\r\n" + 1000000 * b"x" + b"\r\nget large\r\n"),
    ("set of more than memcached stores", b"", b"set large 0 0 2000000\r\n" + 2000000 * b"x" + b"\r\n"),
    ("set with a negative expiry time", b"", b"set past 0 -1 1\r\nx\r\nget past\r\n"),
    ("set whose value is longer than it says", b"", b"set short 0 0 2\r\nlonger\r\n"),
    ("add, replace", STORED, b"add a 0 0 1\r\n2\r\nadd new 0 0 1\r\n2\r\nreplace a 0 0 1\r\n3\r\nreplace none 0 0 1\r\n3\r\nget a\r\n"),
    ("append, prepend", STORED, b"append a 0 0 1\r\n2\r\nprepend a 0 0 1\r\n0\r\nget a\r\nappend none 0 0 1\r\n0\r\n"),
    ("cas", STORED, b"cas a 0 0 1 999999\r\n4\r\ncas none 0 0 1 1\r\n4\r\n"),
    ("delete, and noreply", STORED, b"delete a\r\ndelete a\r\ndelete b noreply\r\nget b\r\n"),
    ("incr, decr", STORED, b"incr a 41\r\ndecr a 2\r\nincr none 1\r\ndecr a 100\r\nincr b 1\r\n"),
    ("touch", STORED, b"touch a 100\r\ntouch none 100\r\n"),
    ("mg", STORED, b"mg a v f t s k q\r\nmg none v\r\nmg a v Oopaque\r\n"),
    ("ms", b"", b"ms m 2 T0 F3\r\nhi\r\nmg m v f\r\nms m 1 MA\r\n!\r\nmg m v\r\n"),
    ("md", STORED, b"md a\r\nmd a\r\nmd none q\r\nmn\r\n"),
    ("ma", STORED, b"ma a\r\nma a MD D1 v\r\nma none N0 J7 v\r\n"),
    ("mn after quiet commands", STORED, b"mg none v q\r\nmg a v q\r\nmn\r\n"),
    ("me", STORED, b"me a\r\n"),
    ("a key of 250 bytes, and of 251", b"", b"set " + 250 * b"k" + b" 0 0 1\r\nx\r\nget " + 250 * b"k" + b"\r\nget " + 251 * b"k" + b"\r\n"),
    ("keys of any bytes", b"", "set schlüssel 0 0 1\r\nx\r\nget schlüssel\r\n".encode()),
    ("100 requests in one write", STORED, 100 * b"get a\r\n"),
    ("lines that end without a carriage return", STORED, b"get a\n"),
    ("a command that does not exist", b"", b"fetch a\r\n"),
    ("a get without keys", b"", b"get\r\n"),
    ("a set without its length", b"", b"set a 0 0\r\n"),
    ("version", b"", b"version\r\n"),
    ("verbosity", b"", b"verbosity 1\r\n"),
    ("flush_all, and the keys are gone", STORED, b"flush_all\r\nget a b\r\n"),
    ("stats", b"", b"stats\r\n"),
    ("quit", b"", b"quit\r\n"),
]

# Numbers that are the server's own.
OWN = [
    (rb"(VALUE \S+ \d+ \d+) \d+", rb"\1 N"),
    (rb"VERSION \S+[^\r]*", rb"VERSION"),
    (rb"(STAT [^\r]*\r\n)+", rb"STAT\r\n"),
    (rb"(ME \S+)[^\r]*", rb"\1"),
]


def answer(port, before, request):
    """What comes back for `request`, and how it ended: `whole`, `closes` or `no answer`."""
    ready = b"set the-end 0 0 3\r\nend\r\n"
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.settimeout(5)
        client.sendall(ready + before + b"get the-end\r\n")
        read_until(client, END)
        # flush_all takes the last key away: it is stored again, whose answer is a part of all answers.
        asked = request + ready + b"get the-end\r\n"
        with contextlib.suppress(OSError):
            client.sendall(asked)
        return read_until(client, b"STORED\r\n" + END)


def read_until(client, end):
    received = b""
    try:
        while not received.endswith(end):
            piece = client.recv(1 << 16)
            if not piece:
                return received, "closes"
            received += piece
    except TimeoutError:
        return received, "no answer"
    except OSError:
        return received, "closes"
    return received[: -len(end)], "whole"


def plain(received):
    for pattern, by in OWN:
        received = re.sub(pattern, by, received)
    return received


def cell(theirs, right):
    """What a proxy does that memcached does otherwise, in a word: bytes received and how they ended, of each."""
    (received, ended), (right, rightly) = theirs, right
    if (plain(received), ended) == (plain(right), rightly):
        return "same"
    if ended != "whole" and ended != rightly:
        return ended
    lines = [line for line in plain(received).split(b"\r\n") if line not in plain(right).split(b"\r\n")]
    first = lines[0][:40].decode("utf-8", "replace") if lines else ""
    return f"`{first}`" if first else "other order or number"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments.add_argument("--memcached-proxy", metavar="PROGRAM", help="also ask this memcached's own proxy")
    arguments.add_argument("--csv", help="write the table here, as docs/comparisons has it")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        # memcached gives up root before it reads its file.
        pathlib.Path(folder).chmod(0o755)

        def beside(proxy, program="memcached"):
            """The ports of a proxy before two memcached, and of one alone."""
            servers = [stack.enter_context(memcached(program)) for _ in range(2)]
            return stack.enter_context(proxy(servers)).port, stack.enter_context(memcached(program)).port

        sides = {
            "krarup": beside(lambda servers: krarup_proxy(options.binary, servers, ["--allow", "flush_all,verbosity"])),
            "twemproxy": beside(lambda servers: twemproxy(servers, folder)),
        }
        if program := options.memcached_proxy:
            sides["memcached"] = beside(lambda servers: memcached_proxy(program, servers, False, folder), program)
        rows = [["", *sides]]
        for name, before, request in EXCHANGES:
            cells = [cell(*(answer(port, before, request) for port in ports)) for ports in sides.values()]
            rows.append([name, *cells])
            print(f"{name:48}", *(f"{cell:24}" for cell in cells), flush=True)
        same = [sum(row[place] == "same" for row in rows[1:]) for place in range(1, len(rows[0]))]
        rows.append([f"the same, of {len(EXCHANGES)}", *map(str, same)])
        print(f"{rows[-1][0]:48}", *(f"{cell:24}" for cell in rows[-1][1:]))
        if options.csv:
            write_csv(options.csv, rows)


if __name__ == "__main__":
    main()
