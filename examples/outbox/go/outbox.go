// An outbox and a worker: `outbox shop URL ORDERS`, `outbox worker URL HOST:PORT`. See ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type bill struct {
	Order int64 `json:"order"`
}

// order commits an order, its message and what it takes from stock together, or nothing.
func order(ctx context.Context, database *pgx.Conn) error {
	return pgx.BeginFunc(ctx, database, func(tx pgx.Tx) error {
		var asked bill
		if err := tx.QueryRow(ctx, "INSERT INTO orders (goods) VALUES (1) RETURNING id").Scan(&asked.Order); err != nil {
			return err
		}
		body, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT krarup.put($1, $2::bytea)", "bills", body); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE stock SET quantity = quantity - 1 WHERE goods = 1")
		return err
	})
}

func shop(ctx context.Context, database *pgx.Conn, orders int) error {
	taken := 0
	for range orders {
		var refused *pgconn.PgError
		switch err := order(ctx, database); {
		case err == nil:
			taken++
		case errors.As(err, &refused) && refused.Code == "23514": // check_violation
		default:
			return err
		}
	}
	fmt.Printf("%d orders taken, %d refused\n", taken, orders-taken)
	return nil
}

func worker(ctx context.Context, database *pgx.Conn, broker string) error {
	queue, err := beanstalk.Dial("tcp", broker)
	if err != nil {
		return err
	}
	defer queue.Close()
	bills, done := beanstalk.NewTubeSet(queue, "bills"), 0
	for {
		id, body, err := bills.Reserve(2 * time.Second)
		if errors.Is(err, beanstalk.ErrTimeout) {
			break
		}
		if err != nil {
			return err
		}
		var asked bill
		if err := json.Unmarshal(body, &asked); err != nil || asked.Order == 0 {
			// It will not get better: kept for people to look at.
			if err := queue.Bury(id, 1024); err != nil {
				return err
			}
			continue
		}
		if _, err := database.Exec(ctx, "INSERT INTO bills (order_id) VALUES ($1) ON CONFLICT DO NOTHING", asked.Order); err != nil {
			log.Print(err)
			if err := queue.Release(id, 1024, 5*time.Second); err != nil {
				return err
			}
			continue
		}
		if err := queue.Delete(id); err != nil {
			return err
		}
		done++
	}
	fmt.Printf("%d messages done\n", done)
	return nil
}

func run(what, url, third string) error {
	ctx := context.Background()
	database, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer database.Close(ctx)
	if what == "worker" {
		return worker(ctx, database, third)
	}
	orders, err := strconv.Atoi(third)
	if err != nil {
		return err
	}
	return shop(ctx, database, orders)
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: outbox shop URL ORDERS, or outbox worker URL HOST:PORT")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}
