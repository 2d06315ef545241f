// Calls of github.com/beanstalkd/go-beanstalk against the broker at a port; ends with an error where an answer is not what it should be.
package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

func must(good bool, what ...any) {
	if !good {
		fmt.Println(what...)
		os.Exit(1)
	}
}

func is(err error, wanted error) bool {
	return errors.Is(err, wanted)
}

func main() {
	conn, err := beanstalk.Dial("tcp", "127.0.0.1:"+os.Args[1])
	must(err == nil, err)
	tube := beanstalk.NewTube(conn, "go-jobs")
	set := beanstalk.NewTubeSet(conn, "go-jobs")
	id, err := tube.Put([]byte("hello\r\nworld"), 3, 0, 5*time.Second)
	must(err == nil, "put", err)
	got, body, err := set.Reserve(time.Second)
	must(err == nil && got == id && string(body) == "hello\r\nworld", "reserve", got, string(body), err)
	must(conn.Touch(id) == nil, "touch")
	must(conn.Release(id, 3, 0) == nil, "release")
	got, _, err = set.Reserve(0)
	must(err == nil && got == id, "reserve again", err)
	must(conn.Bury(id, 3) == nil, "bury")
	got, _, err = tube.PeekBuried()
	must(err == nil && got == id, "peek buried", err)
	kicked, err := tube.Kick(10)
	must(err == nil && kicked == 1, "kick", kicked, err)
	body, err = conn.ReserveJob(id)
	must(err == nil && len(body) == 12, "reserve-job", err)
	stats, err := conn.StatsJob(id)
	must(err == nil && stats["reserves"] == "3" && stats["buries"] == "1", "stats-job", stats, err)
	must(conn.Delete(id) == nil, "delete")
	_, err = conn.Peek(id)
	must(is(err, beanstalk.ErrNotFound), "peek what is gone", err)
	_, _, err = tube.PeekReady()
	must(is(err, beanstalk.ErrNotFound), "peek an empty tube", err)
	_, _, err = set.Reserve(0)
	must(is(err, beanstalk.ErrTimeout), "reserve from an empty tube", err)
	later, err := tube.Put([]byte("later"), 1, time.Hour, time.Minute)
	must(err == nil, "put with a delay", err)
	got, _, err = tube.PeekDelayed()
	must(err == nil && got == later, "peek delayed", err)
	must(conn.KickJob(later) == nil, "kick-job")
	must(tube.Pause(0) == nil, "pause")
	stats, err = tube.Stats()
	must(err == nil && stats["current-jobs-ready"] == "1", "stats-tube", stats, err)
	_, err = tube.Put(make([]byte, 65_536), 1, 0, time.Minute)
	must(is(err, beanstalk.ErrJobTooBig), "put beyond the limit", err)
	tubes, err := conn.ListTubes()
	must(err == nil && len(tubes) == 2, "list-tubes", tubes, err)
	stats, err = conn.Stats()
	must(err == nil && stats["total-jobs"] == "2", "stats", stats["total-jobs"], err)
	// Several goroutines share the connection: requests are sent before earlier ones are answered.
	var all sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			mine := beanstalk.NewTube(conn, fmt.Sprint("go-", worker))
			for round := 0; round < 200; round++ {
				id, err := mine.Put([]byte("x"), 1, 0, time.Minute)
				must(err == nil, "put beside others", err)
				must(conn.Delete(id) == nil, "delete beside others")
			}
		}()
	}
	all.Wait()
	must(conn.Close() == nil, "close")
	fmt.Println("all is well")
}
