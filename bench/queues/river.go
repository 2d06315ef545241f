package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	rivers "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverJob struct {
	ID      int    `json:"id"`
	Padding string `json:"padding"`
}

func (riverJob) Kind() string { return "job" }

type riverWorker struct {
	rivers.WorkerDefaults[riverJob]
	handle func(id int)
}

func (it *riverWorker) Work(_ context.Context, job *rivers.Job[riverJob]) error {
	it.handle(job.Args.ID)
	return nil
}

func pool(ctx context.Context, target string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

// river stores many by COPY (InsertManyFast); its client completes jobs in batches by itself. Fetches and notifications come as often as it allows.
func river() side {
	client := func(ctx context.Context, target string, config *rivers.Config) (*rivers.Client[pgxTx], error) {
		connections, err := pool(ctx, target, 20)
		if err != nil {
			return nil, err
		}
		// Of a client that only inserts, too: it notifies once in this time at most, by default 100 ms.
		config.FetchCooldown = rivers.FetchCooldownMin
		config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		return rivers.NewClient(riverpgxv5.New(connections), config)
	}
	return side{
		setup: func(ctx context.Context, target string) error {
			connections, err := pool(ctx, target, 2)
			if err != nil {
				return err
			}
			migrator, err := rivermigrate.New(riverpgxv5.New(connections), nil)
			if err != nil {
				return err
			}
			_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
			return err
		},
		fill: func(ctx context.Context, target string, first, count int) error {
			it, err := client(ctx, target, &rivers.Config{})
			for at := first; err == nil && at < first+count; at += 1000 {
				var many []rivers.InsertManyParams
				for id := at; id < min(at+1000, first+count); id++ {
					many = append(many, rivers.InsertManyParams{Args: riverJob{id, padding}})
				}
				_, err = it.InsertManyFast(ctx, many)
			}
			return err
		},
		enqueuer: func() func(context.Context, string) (func(int) error, error) {
			var shared *rivers.Client[pgxTx]
			return func(ctx context.Context, target string) (func(int) error, error) {
				var err error
				if shared == nil {
					shared, err = client(ctx, target, &rivers.Config{})
				}
				return func(id int) error {
					_, err := shared.Insert(ctx, riverJob{id, padding}, nil)
					return err
				}, err
			}
		}(),
		work: func(ctx context.Context, target string, workers int, handle func(id int)) error {
			known := rivers.NewWorkers()
			rivers.AddWorker(known, &riverWorker{handle: handle})
			it, err := client(ctx, target, &rivers.Config{
				Queues:               map[string]rivers.QueueConfig{rivers.QueueDefault: {MaxWorkers: workers}},
				Workers:              known,
				FetchPollInterval:    50 * time.Millisecond,
				JobTimeout:           lease - time.Second,
				RescueStuckJobsAfter: lease,
			})
			if err != nil {
				return err
			}
			if err := it.Start(ctx); err != nil {
				return err
			}
			fmt.Println("r")
			<-it.Stopped()
			return fmt.Errorf("river stopped")
		},
	}
}
