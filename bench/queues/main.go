// River, pgmq's SQL and beanstalkd's protocol for bench/queues.py: one role of one of them, as the command line says.
//
//	queues SIDE setup TARGET
//	queues SIDE fill TARGET FIRST COUNT
//	queues SIDE put TARGET FIRST RATE SECONDS
//	queues SIDE work TARGET WORKERS MILLISECONDS
//
// Lines on stdout, times in nanoseconds since 1970: `e ID TIME` a job is stored, and was due at that time; `x ID TIME` it could not be; `r` workers are ready;
// `s ID TIME` a worker begins a job; `d ID TIME` it has done it, and says so to the queue next.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A side is one queue. An enqueuer belongs to one goroutine.
type side struct {
	setup    func(ctx context.Context, target string) error
	fill     func(ctx context.Context, target string, first, count int) error
	enqueuer func(ctx context.Context, target string) (func(id int) error, error)
	work     func(ctx context.Context, target string, workers int, handle func(id int)) error
}

const (
	queue = "jobs"
	// After which a job whose worker is gone is given to another.
	lease = 10 * time.Second
	// Enqueued at the same time at most.
	enqueuers = 32
)

var padding = strings.Repeat("x", 180)

func event(kind string, id int, at time.Time) {
	// One write for each, so that nothing is lost with the process.
	fmt.Fprintf(os.Stdout, "%s %d %d\n", kind, id, at.UnixNano())
}

// eachJob begins goroutines that enqueue what comes in jobs, each with an enqueuer of its own.
func eachJob[T any](ctx context.Context, it side, target string, count int, jobs <-chan T, each func(enqueue func(id int) error, job T)) (*sync.WaitGroup, error) {
	var all sync.WaitGroup
	for range count {
		enqueue, err := it.enqueuer(ctx, target)
		if err != nil {
			return nil, err
		}
		all.Go(func() {
			for job := range jobs {
				each(enqueue, job)
			}
		})
	}
	return &all, nil
}

func put(ctx context.Context, it side, target string, first int, rate, seconds float64) error {
	type job struct {
		id  int
		due time.Time
	}
	jobs := make(chan job, 100_000)
	all, err := eachJob(ctx, it, target, enqueuers, jobs, func(enqueue func(id int) error, job job) {
		kind := "e"
		if err := enqueue(job.id); err != nil {
			fmt.Fprintln(os.Stderr, "put:", err)
			kind = "x"
		}
		event(kind, job.id, job.due)
	})
	if err != nil {
		return err
	}
	begun := time.Now()
	for n := 0; float64(n) < rate*seconds; n++ {
		time.Sleep(time.Until(begun.Add(time.Duration(float64(n) / rate * 1e9))))
		jobs <- job{first + n, time.Now()}
	}
	close(jobs)
	all.Wait()
	return nil
}

// fillOneByOne is for a queue without a statement for many: so many connections at once.
func fillOneByOne(ctx context.Context, it side, target string, first, count, connections int) error {
	ids := make(chan int)
	failed := make(chan error, connections)
	all, err := eachJob(ctx, it, target, connections, ids, func(enqueue func(id int) error, id int) {
		if err := enqueue(id); err != nil && len(failed) == 0 {
			failed <- err
		}
	})
	if err != nil {
		return err
	}
	for id := first; id < first+count; id++ {
		ids <- id
	}
	close(ids)
	all.Wait()
	close(failed)
	return <-failed
}

func run(words []string) error {
	sides := map[string]side{"river": river(), "pgmq": pgmq(), "beanstalk": beanstalkSide()}
	it, known := sides[words[0]]
	if !known {
		return fmt.Errorf("there is no side %s", words[0])
	}
	number := func(at int) float64 {
		value, err := strconv.ParseFloat(words[at], 64)
		if err != nil {
			panic(err)
		}
		return value
	}
	ctx, target := context.Background(), words[2]
	switch words[1] {
	case "setup":
		return it.setup(ctx, target)
	case "fill":
		return it.fill(ctx, target, int(number(3)), int(number(4)))
	case "put":
		return put(ctx, it, target, int(number(3)), number(4), number(5))
	case "work":
		takes := time.Duration(number(4) * 1e6)
		return it.work(ctx, target, int(number(3)), func(id int) {
			event("s", id, time.Now())
			if takes > 0 {
				time.Sleep(takes)
			}
			event("d", id, time.Now())
		})
	}
	return fmt.Errorf("there is no role %s", words[1])
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
