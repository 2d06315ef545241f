package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type pgxTx = pgx.Tx

type pgmqJob struct {
	ID      int    `json:"id"`
	Padding string `json:"padding"`
}

// At most so many messages in one read, and so many readers for all workers: one delete for all of a read.
const pgmqBatch = 16

// pgmqRead takes up to qty messages and waits up to a second for the first, looking every 10 ms.
const pgmqRead = "SELECT msg_id, (message->>'id')::int FROM pgmq.read_with_poll('jobs', $1, $2, 1, 10)"

func pgmqReader(ctx context.Context, connections *pgxpool.Pool, workers int, handle func(id int)) error {
	rows, err := connections.Query(ctx, pgmqRead, int(lease.Seconds()), workers)
	if err != nil {
		return err
	}
	messages, all := []int64{}, sync.WaitGroup{}
	var message int64
	var id int
	_, err = pgx.ForEachRow(rows, []any{&message, &id}, func() error {
		messages = append(messages, message)
		job := id
		all.Go(func() { handle(job) })
		return nil
	})
	all.Wait()
	if err == nil && len(messages) > 0 {
		_, err = connections.Exec(ctx, "SELECT pgmq.delete('jobs', $1::bigint[])", messages)
	}
	return err
}

// pgmq has no worker of its own: this is one as its documents use it, with a poll in the server, and one delete for what was read.
func pgmq() side {
	return side{
		setup: func(ctx context.Context, target string) error {
			script, err := os.ReadFile(os.Getenv("PGMQ_SQL"))
			if err != nil {
				return fmt.Errorf("PGMQ_SQL names pgmq.sql of its repository: %w", err)
			}
			connection, err := pgx.Connect(ctx, target)
			if err != nil {
				return err
			}
			_, err = connection.Exec(ctx, string(script)+"; SELECT pgmq.create('jobs')", pgx.QueryExecModeSimpleProtocol)
			return err
		},
		fill: func(ctx context.Context, target string, first, count int) error {
			connection, err := pgx.Connect(ctx, target)
			for at := first; err == nil && at < first+count; at += 1000 {
				var many []pgmqJob
				for id := at; id < min(at+1000, first+count); id++ {
					many = append(many, pgmqJob{id, padding})
				}
				_, err = connection.Exec(ctx, "SELECT pgmq.send_batch('jobs', $1::jsonb[])", many)
			}
			return err
		},
		enqueuer: func() func(context.Context, string) (func(int) error, error) {
			var shared *pgxpool.Pool
			return func(ctx context.Context, target string) (func(int) error, error) {
				var err error
				if shared == nil {
					shared, err = pool(ctx, target, 20)
				}
				return func(id int) error {
					_, err := shared.Exec(ctx, "SELECT pgmq.send('jobs', $1::jsonb)", pgmqJob{id, padding})
					return err
				}, err
			}
		}(),
		work: func(ctx context.Context, target string, workers int, handle func(id int)) error {
			readers := (workers + pgmqBatch - 1) / pgmqBatch
			connections, err := pool(ctx, target, int32(readers))
			if err != nil {
				return err
			}
			var all sync.WaitGroup
			for range readers {
				all.Go(func() {
					for {
						if err := pgmqReader(ctx, connections, workers/readers, handle); err != nil {
							fmt.Fprintln(os.Stderr, "read:", err)
							time.Sleep(100 * time.Millisecond)
						}
					}
				})
			}
			fmt.Println("r")
			all.Wait()
			return nil
		},
	}
}
