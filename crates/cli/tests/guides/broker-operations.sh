# Two shards in a database, and monitoring.
asked -c 'CREATE ROLE krarup LOGIN' -c 'CREATE DATABASE queues OWNER krarup' || exit 1
service 'krarup broker --store postgres://krarup@127.0.0.1/queues --shards 2 --admin 127.0.0.1:9150'
until krarup health 127.0.0.1:9150 >health.log 2>&1; do kill -0 $pid || failed "$(cat health.log)"; done
