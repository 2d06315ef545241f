# The database of the broker, and its user.
asked -c 'CREATE ROLE krarup LOGIN' -c 'CREATE DATABASE queues OWNER krarup' || exit 1
