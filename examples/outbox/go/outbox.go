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
	"strings"
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

// write writes the bill that a message asks for. A refused message will not get better: it is no order, or PostgreSQL
// does not take its data (class 22 of its errors) or what it refers to (class 23).
func write(ctx context.Context, database *pgx.Conn, body []byte) (refused bool, err error) {
	var asked bill
	if err := json.Unmarshal(body, &asked); err != nil {
		return true, err
	}
	_, err = database.Exec(ctx, "INSERT INTO bills (order_id) VALUES ($1) ON CONFLICT DO NOTHING", asked.Order)
	var problem *pgconn.PgError
	refused = errors.As(err, &problem) && (strings.HasPrefix(problem.Code, "22") || strings.HasPrefix(problem.Code, "23"))
	return refused, err
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
		refused, err := write(ctx, database, body)
		switch {
		case err == nil:
			done++
			err = queue.Delete(id)
		case refused:
			// Kept for people to look at.
			log.Print(err)
			err = queue.Bury(id, 1024)
		default:
			log.Print(err)
			err = queue.Release(id, 1024, 5*time.Second)
		}
		if err != nil {
			return err
		}
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
