"""An outbox and a worker: `outbox.py shop URL ORDERS`, `outbox.py worker URL HOST:PORT`. See ../README.md."""

import json
import operator
import sys

import greenstalk
import psycopg


def shop(url, orders):
    taken = 0
    with psycopg.connect(url, autocommit=True) as database:
        for _ in range(orders):
            try:
                # All of it is committed, or nothing.
                with database.transaction():
                    order, = database.execute("INSERT INTO orders (goods) VALUES (1) RETURNING id").fetchone()
                    database.execute("SELECT krarup.put(%s, %s)", ["bills", json.dumps({"order": order})])
                    database.execute("UPDATE stock SET quantity = quantity - 1 WHERE goods = 1")
                taken += 1
            except psycopg.errors.CheckViolation:
                pass
    print(f"{taken} orders taken, {orders - taken} refused")


def worker(url, broker):
    host, port = broker.rsplit(":", 1)
    done = 0
    # Without an encoding, bodies are bytes: what is no text ends no worker.
    queue = greenstalk.Client((host, int(port)), watch=["bills"], encoding=None)
    with queue, psycopg.connect(url, autocommit=True) as database:
        while True:
            try:
                job = queue.reserve(timeout=2)
            except greenstalk.TimedOutError:
                break
            try:
                order = operator.index(json.loads(job.body)["order"])
                database.execute("INSERT INTO bills (order_id) VALUES (%s) ON CONFLICT DO NOTHING", [order])
                queue.delete(job)
                done += 1
            except (ValueError, KeyError, TypeError, RecursionError, psycopg.DataError, psycopg.IntegrityError):
                # It will not get better: kept for people to look at.
                queue.bury(job)
            except psycopg.Error as error:
                print(error, file=sys.stderr)
                queue.release(job, delay=5)
    print(f"{done} messages done")


if __name__ == "__main__":
    what, url, third = sys.argv[1:]
    shop(url, int(third)) if what == "shop" else worker(url, third)
