#!/usr/bin/env python3
"""How long messages wait with so many workers, and how many workers krarup broker says are needed.

    cargo build --release && bench/workers.py --rate 40 --service 0.1 --seconds 120 --workers 4,5,6,7,8 [--target "p95 < 100ms"]

For each number of workers a broker of its own, in memory, all at once: a producer puts messages at random moments (a
Poisson process), workers take one at a time and keep it for a random time (exponential). They sleep, so that
dozens need no processor. The waiting time is measured here, from the answer to the put to the arrival of the message at
its worker. At the end the broker says what it saw (`GET /tubes`). Needs Python 3.11 or later.
"""

import argparse
import asyncio
import json
import pathlib
import random
import statistics
import time
import urllib.request

from proxies import ROOT, Station, free_port


class Client:
    """One connection to the broker, one request after the other."""

    @classmethod
    async def connect(cls, port):
        self = cls()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, request):
        self.writer.write(request)
        return (await self.reader.readline()).split()


async def produce(port, rate, end, put_at, draw):
    client = await Client.connect(port)
    await client.ask(b"use jobs\r\n")
    due = time.monotonic()
    while due < end:
        due += draw.expovariate(rate)
        await asyncio.sleep(max(0, due - time.monotonic()))
        answer = await client.ask(b"put 1 0 600 1\r\nx\r\n")
        put_at[int(answer[1])] = time.monotonic()


async def work(port, service, put_at, waits, draw):
    client = await Client.connect(port)
    await client.ask(b"watch jobs\r\n")
    while True:
        answer = await client.ask(b"reserve\r\n")
        taken = time.monotonic()
        await client.reader.readline()
        waits.append((int(answer[1]), taken))
        await asyncio.sleep(draw.expovariate(1 / service))
        await client.ask(b"delete " + answer[1] + b"\r\n")


async def run(options, count, stations):
    port, admin = free_port(), free_port()
    command = [options.binary, "broker", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    broker = Station(command + ["--waiting-target", options.target], port)
    stations.append(broker)
    put_at, waits = {}, []
    draws = [random.Random(f"{options.seed} {name}") for name in ["puts", *range(count)]]
    workers = [asyncio.create_task(work(port, options.service, put_at, waits, draw)) for draw in draws[1:]]
    await produce(port, options.rate, time.monotonic() + options.seconds, put_at, draws[0])
    url = f"http://127.0.0.1:{admin}/tubes"
    tubes = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url).read()))
    for worker in workers:
        worker.cancel()
    tube = next(tube for tube in tubes["tubes"] if tube["tube"] == "jobs")
    # A message may reach its worker before the answer to its put reaches the producer.
    measured = [max(0, taken - put_at[message]) for message, taken in waits if message in put_at]
    return count, measured, tube


async def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", default=str(ROOT / "target/release/krarup"))
    arguments.add_argument("--rate", type=float, default=40, help="messages per second")
    arguments.add_argument("--service", type=float, default=0.1, help="mean time that a worker keeps one, in seconds")
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--workers", default="4,5,6,7,8")
    arguments.add_argument("--target", default="p95 < 100ms")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--json", type=pathlib.Path, help="all answers of the brokers")
    options = arguments.parse_args()
    stations = []
    try:
        runs = await asyncio.gather(*(run(options, int(count), stations) for count in options.workers.split(",")))
    finally:
        # Not before: waiting for the end of one would hold up the workers of the others.
        for station in stations:
            station.stop()
    print(f"{options.rate:g} messages/s, {options.service:g} s each; target {options.target}")
    print("workers  messages  waited: mean      p95   the broker: p95  utilization  workers needed")
    for count, measured, tube in runs:
        p95 = statistics.quantiles(measured, n=20)[-1]
        needed = tube["workers"].get("needed")
        says = f"{needed['mean']} ({needed['low']} - {needed['high']})" if needed else tube["workers"]["silent"]
        waits = f"{statistics.fmean(measured):10.3f} s {p95:6.3f} s {tube['waiting_s']['p95']:13.3f} s"
        print(f"{count:7} {len(measured):9}   {waits} {tube['utilization']:12.2f}  {says}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({count: tube for count, _, tube in runs}, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
