#!/usr/bin/env python3
"""Tests of what measures: it stops where requests fail, and holds against each other what is alike. No server is started, and nothing waits.

    bench/tests.py
"""

import contextlib
import io
import pathlib
import signal
import tempfile
import types
import unittest
from unittest import mock

import broker
import generators
import memory
import proxies
import queues
from queues import SECOND


def said_by_memcslap(test, done):
    fed = "Time to set             800 keys:                     0.031 seconds.\n" if test == "get" else ""
    begun = "Time to generate        800 test keys:                0.002 seconds.\n"
    return f"{begun}{fed}{'-' * 68}\nTime to {test}     {done:>10} keys by   96 threads:     1.020 seconds.\n"


class Memcslap(unittest.TestCase):
    def test_what_it_says_is_counted_its_feeding_included(self):
        self.assertEqual(generators.memcslap_requests(said_by_memcslap("get", 76_800), "get", 96, 800), 77_600)
        self.assertEqual(generators.memcslap_requests(said_by_memcslap("set", 76_800), "set", 96, 800), 76_800)

    def test_a_request_that_failed_is_an_error(self):
        for test in ("get", "set"):
            with self.assertRaises(SystemExit):
                generators.memcslap_requests(said_by_memcslap(test, 76_799), test, 96, 800)

    def test_it_stands_beside_its_own_sizes_and_beside_no_mixture(self):
        every = [(name, None, None) for name in ("krarup load", "memtier", "memcslap")]
        for workload in generators.WORKLOADS:
            names = [name for name, *_ in generators.beside(workload, every)]
            self.assertEqual(len(names), 2)
            if "memcslap" in names:
                self.assertIn(workload[2], generators.MEMCSLAP_TESTS)
                self.assertEqual(generators.sizes(workload), ["-d", "50-4999", "--key-size", "20-59"])


class Twemproxy(unittest.TestCase):
    def test_its_one_copy_is_not_beside_three(self):
        with_it = {
            name for name, count, _ in proxies.WORKLOADS if "twemproxy" in proxies.names_of_sides(name, count, mock.Mock(), None)
        }
        self.assertNotIn("SET 64 B replicated to 3 servers, 96 connections", with_it)
        self.assertIn("SET 64 B to one server, 96 connections", with_it)


class Processes(unittest.TestCase):
    def test_a_program_that_never_listens_is_ended_with_the_measurement(self):
        with mock.patch.object(proxies.subprocess, "Popen") as begun, mock.patch.object(proxies.atexit, "register") as register:
            with self.assertRaises(SystemExit):
                proxies.Station(["memcached"], 1, patience=0)
        end, *arguments = register.call_args.args
        end(*arguments)
        begun.return_value.terminate.assert_called_once_with()

    def test_a_signal_that_ends_a_measurement_ends_what_it_started(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Under nohup a terminal that goes ends nothing.
            if signal.getsignal(number) is not signal.SIG_IGN:
                with self.assertRaises(SystemExit):
                    signal.getsignal(number)(number, None)


class Memory(unittest.TestCase):
    def test_a_bystander_that_is_cut_off_says_so_and_is_not_waited_for(self):
        stream, answers = mock.Mock(), mock.Mock()
        stream.recv.side_effect = ConnectionResetError("cut off")
        with mock.patch.multiple(memory, connect=lambda _: stream, cpu_seconds=lambda _: 0.0):
            memory.bystander(1, (2, 3), mock.Mock(is_set=lambda: False), answers)
        answers.put.assert_called_once_with(([], "cut off"))


class Drive(unittest.TestCase):
    def test_the_time_beside_five_operations_is_that_of_the_first(self):
        flags = types.SimpleNamespace(rounds=1, modes=["direct"], waiting=1)
        runs = {"direct": [{"requests_per_second": 10, "put_p99_ms": 2.5}]}
        with mock.patch.multiple(broker, filled=mock.Mock(), in_turn=lambda *_: runs), contextlib.redirect_stdout(io.StringIO()) as said:
            broker.five(flags, None)
        self.assertIn("| mode | requests/s | over direct | send p99 ms |\n|---|---|---|---|\n| direct | 10 | 1.00 | 2.50 |", said.getvalue())


class Pgbench(unittest.TestCase):
    def test_a_client_that_gave_up_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "pgbench"
            program.write_text("#!/bin/sh\necho 'number of transactions actually processed: 10'\necho 'tps = 10.0'\nexit 2\n")
            program.chmod(0o755)
            cluster = types.SimpleNamespace(folder=folder, programs=pathlib.Path(folder), cpu=lambda: 0)
            with self.assertRaises(SystemExit):
                broker.Cluster.pgbench(cluster, 1, 1, 1)


class Clock:
    """Time that passes where it is slept away."""

    def __init__(self):
        self.now = 0

    def sleep(self, seconds):
        self.now += round(seconds * SECOND)

    def time_ns(self):
        return self.now


class Queues(unittest.TestCase):
    def test_rounds_are_shown_with_the_least_and_the_greatest(self):
        self.assertEqual(queues.spread([7_447, 12_337, 8_461], 0), "8,461 (7,447-12,337)")
        self.assertEqual(queues.spread([7_447], 0), "7,447")

    def test_sides_take_turns_each_round_in_databases_of_its_own(self):
        order = []

        def side(name, database):
            made = mock.Mock(rate=0, database=database)
            made.name = name
            return made

        def drain(one, workers, _seconds):
            if workers == 64:
                order.append((one.name, one.database))
            return {"rate": 10.0, "database": 1.0, "own": 1.0}

        waited = {"p50": 1.0, "p99": 2.0, "jobs": 300, "begun": 300}
        flags = types.SimpleNamespace(rounds=2, seconds=2)
        first = [side("one", "rate"), side("other", "rate")]
        with mock.patch.multiple(queues, drain=drain, latency=lambda *_: waited, told=lambda _: None):
            tables = queues.rates(flags, first, lambda queue, part: side(queue.name, part))
        self.assertEqual(order, [("one", "rate"), ("other", "rate"), ("other", "rate1"), ("one", "rate1")])
        self.assertEqual(tables["rate"][1], ["one", *["10 (10-10)"] * 4, "1", "1"])
        self.assertEqual(tables["latency"][2], ["other", *["1.0 (1.0-1.0)", "2.0 (2.0-2.0)"] * 4])

    def test_a_job_that_cannot_be_stored_is_an_error(self):
        flags, side = types.SimpleNamespace(rate=2, latency=1), mock.Mock(waiting=0)
        stored, refused = (f"{kind} {job} 1764435600000000000\n" for kind, job in (("e", 1), ("x", 2)))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lines"
            worker = mock.Mock(path=path)

            def measured(code, text):
                path.write_text(text)
                side.put.return_value = mock.Mock(wait=lambda: code), path
                with mock.patch.multiple(queues, Worker=lambda *_: worker, begin=mock.Mock(), time=mock.Mock()):
                    return queues.latency(side, 4, flags)

            self.assertEqual(measured(0, stored)["jobs"], 1)
            for code, text in ((1, stored), (0, stored + refused)):
                with self.assertRaises(SystemExit):
                    measured(code, text)

    def test_what_a_held_snapshot_costs_is_held_against_a_rate_without_one(self):
        clock, windows, opened = Clock(), [], []

        def drain(_side, _workers, seconds, during):
            begun = clock.now
            during()
            clock.now = max(clock.now, begun + round(seconds * SECOND))
            windows.append((begun, clock.now))
            return {"begun": begun, "ended": clock.now, "done": range(begun, clock.now, SECOND // 10)}

        def session(_side, _statements):
            opened.append(clock.now)
            return mock.Mock()

        flags, side = types.SimpleNamespace(held=8, readers=3), mock.Mock(rate=10)
        stand_ins = {"time": clock, "drain": drain, "session": session, "subprocess": mock.Mock(), "big_tables": lambda *_: ["t"], "told": lambda _: None}
        with mock.patch.multiple(queues, **stand_ins):
            table = queues.held(flags, mock.Mock(), [side], lambda *_: side)["held"]
        begun, ended = windows[0]
        self.assertEqual((opened[0] - begun, ended - opened[0]), (2 * SECOND, 8 * SECOND))
        self.assertEqual(table[1][1:4], ["10", "10", "1.00"])


if __name__ == "__main__":
    unittest.main()
