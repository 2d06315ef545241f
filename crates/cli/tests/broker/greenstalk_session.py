"""Every call of greenstalk against the broker at a port; ends with an exception where an answer is not what it should be."""

import sys

import greenstalk

client = greenstalk.Client(("127.0.0.1", int(sys.argv[1])), use="jobs", watch=["jobs"])
number = client.put("hello", priority=3, ttr=5)
job = client.reserve(timeout=1)
assert (job.id, job.body) == (number, "hello")
client.touch(job)
client.release(job, delay=0)
job = client.reserve()
client.bury(job)
assert client.peek_buried().id == number
assert client.kick(10) == 1
job = client.reserve_job(number)
statistics = client.stats_job(job)
assert (statistics["reserves"], statistics["releases"], statistics["buries"], statistics["kicks"]) == (3, 1, 1, 1)
client.delete(job)
for question in (client.peek_ready, client.peek_delayed, client.peek_buried, lambda: client.peek(number)):
    try:
        question()
        raise AssertionError("a message that is gone was found")
    except greenstalk.NotFoundError:
        pass
try:
    client.reserve(timeout=0)
    raise AssertionError("an empty queue gave a message")
except greenstalk.TimedOutError:
    pass
later = client.put("later", delay=100)
client.kick_job(later)
assert client.peek_ready().body == "later"
try:
    client.put("x" * 65536)
    raise AssertionError("a message beyond the limit was accepted")
except greenstalk.JobTooBigError:
    pass
client.pause_tube("jobs", 0)
assert client.stats_tube("jobs")["current-jobs-ready"] == 1
assert client.stats()["total-jobs"] == 2
assert sorted(client.tubes()) == ["default", "jobs"]
assert client.using() == "jobs" and client.watching() == ["jobs"]
client.watch("more")
client.ignore("jobs")
try:
    client.ignore("more")
    raise AssertionError("the last tube was ignored")
except greenstalk.NotIgnoredError:
    pass
client.close()
print("all is well")
