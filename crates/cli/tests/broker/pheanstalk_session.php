<?php
// Every call of pheanstalk 4 against the broker at a port; ends with an error where an answer is not what it should be.

require getenv('PHEANSTALK') ?: 'Pheanstalk/autoload.php';

use Pheanstalk\Exception;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

function is($heard, $expected): void
{
    if ($heard !== $expected) {
        throw new RuntimeException('heard ' . var_export($heard, true) . ' instead of ' . var_export($expected, true));
    }
}

function fails(callable $what): void
{
    try {
        $what();
    } catch (Exception $refused) {
        return;
    }
    throw new RuntimeException('what cannot be was done');
}

$queue = Pheanstalk::create('127.0.0.1', (int) $argv[1]);
$queue->useTube('jobs')->watchOnly('jobs');
$put = $queue->put('hello', 3, 0, 5);
$job = $queue->reserve();
is([$job->getId(), $job->getData()], [$put->getId(), 'hello']);
$queue->touch($job);
$queue->release($job, 3, 0);
$job = $queue->reserveWithTimeout(1);
$queue->bury($job);
is($queue->peekBuried()->getId(), $put->getId());
is($queue->kick(10), 1);
is($queue->peekReady()->getData(), 'hello');
$statistics = $queue->statsJob($put);
is([(int) $statistics['reserves'], (int) $statistics['releases'], (int) $statistics['kicks']], [2, 1, 1]);
is(trim($statistics['tube'], '"'), 'jobs');
$queue->delete($put);
foreach ([fn () => $queue->peekReady(), fn () => $queue->peekDelayed(), fn () => $queue->peekBuried(), fn () => $queue->reserveWithTimeout(0)] as $none) {
    is($none(), null);
}
fails(fn () => $queue->peek(new JobId($put->getId())));
$later = $queue->put('later', 1, 100);
is($queue->peekDelayed()->getData(), 'later');
$queue->kickJob($later);
is($queue->peek($later)->getData(), 'later');
$queue->pauseTube('jobs', 0);
is((int) $queue->statsTube('jobs')['current-jobs-ready'], 1);
is((int) $queue->stats()['total-jobs'], 2);
is($queue->listTubeUsed(true), 'jobs');
is(array_values($queue->listTubesWatched(true)), ['jobs']);
$tubes = $queue->listTubes();
sort($tubes);
is($tubes, ['default', 'jobs']);
fails(fn () => $queue->put(str_repeat('x', 65536)));
$binary = "\0\r\n\xff";
$queue->put($binary, 0);
is($queue->reserve()->getData(), $binary);
echo "all is well\n";
