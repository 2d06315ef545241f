// What github.com/bradfitz/gomemcache does with a memcached at the port named: a line for each thing it finds. The same lines
// come of a memcached and of a proxy before several, or somebody is wrong.
package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	client := memcache.New("127.0.0.1:" + os.Args[1])
	say := func(what string, err error) {
		switch {
		case err == nil:
			fmt.Println(what, "ok")
		case errors.Is(err, memcache.ErrCacheMiss):
			fmt.Println(what, "miss")
		case errors.Is(err, memcache.ErrCASConflict):
			fmt.Println(what, "conflict")
		case errors.Is(err, memcache.ErrNotStored):
			fmt.Println(what, "not stored")
		default:
			fmt.Println(what, "error", strings.ReplaceAll(err.Error(), os.Args[1], "PORT"))
		}
	}
	get := func(key string) *memcache.Item {
		item, err := client.Get(key)
		say("get "+key, err)
		if err == nil {
			text := string(item.Value)
			if len(text) > 60 {
				text = fmt.Sprint(len(text), " bytes")
			}
			fmt.Println(" ", item.Flags, text)
		}
		return item
	}
	large := []byte(strings.Repeat("large\r\n", 100_000))
	say("ping", client.Ping())
	say("set", client.Set(&memcache.Item{Key: "go-a", Value: []byte("one"), Flags: 7}))
	get("go-a")
	get("go-nothing")
	say("add", client.Add(&memcache.Item{Key: "go-a", Value: []byte("x")}))
	say("add", client.Add(&memcache.Item{Key: "go-b", Value: []byte("two"), Expiration: 1000}))
	say("replace", client.Replace(&memcache.Item{Key: "go-b", Value: []byte("zwei")}))
	say("replace", client.Replace(&memcache.Item{Key: "go-nothing", Value: []byte("x")}))
	say("append", client.Append(&memcache.Item{Key: "go-b", Value: []byte("!")}))
	say("prepend", client.Prepend(&memcache.Item{Key: "go-b", Value: []byte("> ")}))
	say("large", client.Set(&memcache.Item{Key: "go-large", Value: large}))
	get("go-large")
	first, second := get("go-a"), get("go-a")
	first.Value, second.Value = []byte("first"), []byte("second")
	say("cas", client.CompareAndSwap(first))
	say("cas", client.CompareAndSwap(second))
	get("go-a")
	many := []string{"go-nothing"}
	for number := range 40 {
		key := fmt.Sprintf("go-many-%02d", number)
		say("set", client.Set(&memcache.Item{Key: key, Value: fmt.Append(nil, number)}))
		many = append(many, key)
	}
	items, err := client.GetMulti(many)
	say("get many", err)
	keys := make([]string, 0, len(items))
	for key := range items {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		fmt.Println(" ", key, string(items[key].Value))
	}
	say("set", client.Set(&memcache.Item{Key: "go-number", Value: []byte("10")}))
	for _, delta := range []uint64{1, 89, 1 << 40} {
		number, err := client.Increment("go-number", delta)
		say(fmt.Sprint("increment ", number), err)
	}
	number, err := client.Decrement("go-number", 1<<50)
	say(fmt.Sprint("decrement ", number), err)
	_, err = client.Increment("go-nothing", 1)
	say("increment", err)
	_, err = client.Increment("go-a", 1)
	say("increment", err)
	say("touch", client.Touch("go-b", 1000))
	say("touch", client.Touch("go-nothing", 1000))
	item, err := client.GetAndTouch("go-b", 2000)
	say("get and touch", err)
	fmt.Println(" ", string(item.Value))
	say("delete", client.Delete("go-b"))
	say("delete", client.Delete("go-b"))
	get("go-b")
	say("bad key", client.Set(&memcache.Item{Key: "two words", Value: []byte("x")}))
	say("too large", client.Set(&memcache.Item{Key: "go-large", Value: make([]byte, 2<<20)}))
	get("go-large")
	say("close", client.Close())
}
