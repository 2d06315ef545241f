package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// beanstalkWorker takes jobs over one connection until that fails.
func beanstalkWorker(target string, handle func(id int)) error {
	connection, err := beanstalk.Dial("tcp", target)
	if err != nil {
		return err
	}
	defer connection.Close()
	tubes := beanstalk.NewTubeSet(connection, queue)
	for {
		message, body, err := tubes.Reserve(time.Minute)
		if errors.Is(err, beanstalk.ErrTimeout) || errors.Is(err, beanstalk.ErrDeadline) {
			continue
		} else if err != nil {
			return err
		}
		id, err := strconv.Atoi(strings.Fields(string(body))[0])
		if err != nil {
			return err
		}
		handle(id)
		if err := connection.Delete(message); err != nil {
			return err
		}
	}
}

// beanstalkSide is krarup broker, through the client that Go's users of beanstalkd have: a connection for each worker.
func beanstalkSide() side {
	it := side{
		setup: func(context.Context, string) error { return nil },
		enqueuer: func(_ context.Context, target string) (func(int) error, error) {
			var connection *beanstalk.Conn
			return func(id int) error {
				var err error
				if connection == nil {
					if connection, err = beanstalk.Dial("tcp", target); err != nil {
						time.Sleep(50 * time.Millisecond)
						return err
					}
				}
				tube := beanstalk.Tube{Conn: connection, Name: queue}
				if _, err = tube.Put([]byte(fmt.Sprint(id, " ", padding)), 1024, 0, lease); err != nil {
					connection.Close()
					connection = nil
				}
				return err
			}, nil
		},
		work: func(_ context.Context, target string, workers int, handle func(id int)) error {
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for {
						fmt.Fprintln(os.Stderr, "worker:", beanstalkWorker(target, handle))
						time.Sleep(100 * time.Millisecond)
					}
				})
			}
			fmt.Println("r")
			all.Wait()
			return nil
		},
	}
	it.fill = func(ctx context.Context, target string, first, count int) error {
		return fillOneByOne(ctx, it, target, first, count, 100)
	}
	return it
}
