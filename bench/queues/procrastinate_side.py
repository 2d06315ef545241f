"""Procrastinate for bench/queues.py; roles and lines are those of main.go.

Its worker runs so many jobs at once in one process, is woken by NOTIFY, and jobs of a worker without heartbeat are tried again by the periodic task of its guide.
"""

import asyncio
import os
import sys
import time

import procrastinate

LEASE = 10
PADDING = "x" * 180

role, target, *numbers = sys.argv[1:]
numbers = [float(number) for number in numbers]
takes = numbers[1] / 1000 if role == "work" else 0
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=target, min_size=4, max_size=20))


def event(kind, job, at):
    os.write(1, f"{kind} {job} {at}\n".encode())


@app.task(name="job", queue="jobs")
async def work(id, padding):
    event("s", id, time.time_ns())
    if takes:
        await asyncio.sleep(takes)
    event("d", id, time.time_ns())


@app.periodic(cron="* * * * * */2")
@app.task(name="retry_stalled", queue="jobs", queueing_lock="retry_stalled")
async def retry_stalled(timestamp):
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE):
        await app.job_manager.retry_job(job)


async def put_one(job, due):
    try:
        await work.defer_async(id=job, padding=PADDING)
        event("e", job, due)
    except Exception as failure:
        print("put:", repr(failure), file=sys.stderr)
        event("x", job, due)


async def put(first, rate, seconds):
    begun, tasks = time.monotonic(), []
    for n in range(int(rate * seconds)):
        await asyncio.sleep(max(0, begun + n / rate - time.monotonic()))
        tasks.append(asyncio.create_task(put_one(int(first) + n, time.time_ns())))
    await asyncio.gather(*tasks)


async def fill(first, count):
    ids = range(int(first), int(first + count))
    for at in range(0, len(ids), 1000):
        await work.batch_defer_async(*({"id": job, "padding": PADDING} for job in ids[at : at + 1000]))


async def main():
    async with app.open_async():
        if role == "setup":
            await app.schema_manager.apply_schema_async()
        elif role == "fill":
            await fill(*numbers)
        elif role == "put":
            await put(*numbers)
        else:
            os.write(1, b"r\n")
            await app.run_worker_async(
                queues=["jobs"],
                concurrency=int(numbers[0]),
                fetch_job_polling_interval=0.05,
                install_signal_handlers=False,
                update_heartbeat_interval=2,
                stalled_worker_timeout=LEASE,
            )


asyncio.run(main())
