#!/usr/bin/env python3
"""Events per second of the simulator against SimPy and Ciw: the same models, all in one run, one core each.

An event is an arrival, an end of thinking or a completed service, in all three alike. Times are those of the simulation alone, by each
program's own clock; rounds alternate, and the median counts. What each says the mean response time is stands beside its speed: fast and
wrong would be no result.

    python3 -m venv VENV && VENV/bin/pip install simpy ciw && VENV/bin/python bench/simulators.py [--rounds 3]
"""

import argparse
import importlib.metadata
import random
import statistics
import time

from models import criterion

# One model in three languages: Poisson arrivals to 16 exponential servers, 0.9 busy. R = 1.3696 s exactly.
RATE, SERVERS = 14.4, 16
# 288 clients that think 0.8 ms, 128 workers held while copies go to three servers and all have answered.
CLIENTS, WORKERS, THINK, SERVICE = 288, 128, 0.8e-3, 6.1199e-5


def simpy_mm16(jobs):
    import simpy

    chance, times = random.Random(1), []

    def job(env, servers):
        came = env.now
        with servers.request() as turn:
            yield turn
            yield env.timeout(chance.expovariate(1.0))
        times.append(env.now - came)

    def arrivals(env, servers):
        for _ in range(jobs):
            yield env.timeout(chance.expovariate(RATE))
            env.process(job(env, servers))

    env = simpy.Environment()
    env.process(arrivals(env, simpy.Resource(env, SERVERS)))
    begun = time.perf_counter()
    env.run()
    return 2 * jobs / (time.perf_counter() - begun), statistics.fmean(times)


def ciw_mm16(jobs):
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=RATE)],
        service_distributions=[ciw.dists.Exponential(rate=1.0)],
        number_of_servers=[SERVERS])
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    begun = time.perf_counter()
    simulation.simulate_until_max_customers(jobs)
    seconds = time.perf_counter() - begun
    times = [row.exit_date - row.arrival_date for row in simulation.get_all_records()]
    return 2 * jobs / seconds, statistics.fmean(times)


def simpy_held(cycles):
    import simpy

    chance, times, events = random.Random(1), [], [0]

    def copy(env, server):
        with server.request() as turn:
            yield turn
            yield env.timeout(chance.expovariate(1.0 / SERVICE))
        events[0] += 1

    def client(env, workers, servers):
        while True:
            yield env.timeout(chance.expovariate(1.0 / THINK))
            events[0] += 1
            begun = env.now
            with workers.request() as slot:
                yield slot
                yield env.all_of([env.process(copy(env, server)) for server in servers])
            times.append(env.now - begun)

    env = simpy.Environment()
    workers = simpy.Resource(env, WORKERS)
    servers = [simpy.Resource(env, 1) for _ in range(3)]
    for _ in range(CLIENTS):
        env.process(client(env, workers, servers))
    begun = time.perf_counter()
    env.run(until=cycles * SERVICE)
    seconds = time.perf_counter() - begun
    return events[0] / seconds, statistics.fmean(times[len(times) // 5:])


# Name of our benchmark -> those who can do the same, with how long they run.
CASES = {
    "M/M/16": {"SimPy": (simpy_mm16, 100_000), "Ciw": (ciw_mm16, 50_000)},
    "held workers, fork to 3, N = 288": {"SimPy": (simpy_held, 40_000)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ["simpy", "ciw"])
    print(f"{versions}; {rounds} rounds\n")
    speeds, responses = {}, {}
    for _ in range(rounds):
        for name, seconds in criterion("simulation").items():
            case = name.removeprefix("simulation/")
            speeds.setdefault((case, "krarup"), []).append(1_000_000 / seconds)
        for case, others in CASES.items():
            for other, (simulate, length) in others.items():
                speed, response = simulate(length)
                speeds.setdefault((case, other), []).append(speed)
                responses[case, other] = response
    print("| model | simulator | million events/s | krarup is faster by | mean response |\n|---|---|---:|---:|---:|")
    for (case, who), found in speeds.items():
        speed = statistics.median(found)
        ratio = f"{statistics.median(speeds[case, 'krarup']) / speed:.0f} ×" if who != "krarup" else ""
        response = f"{responses[case, who]:.4g} s" if (case, who) in responses else ""
        print(f"| {case} | {who} | {speed / 1e6:.3f} | {ratio} | {response} |")


if __name__ == "__main__":
    main()
