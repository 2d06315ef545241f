# The address of the database in a file, another database to restore into, and a user who may read all.
mkdir -p /etc/krarup
echo 'postgres://krarup@127.0.0.1/queues' >/etc/krarup/store && chmod 600 /etc/krarup/store
asked -c 'CREATE DATABASE restored' || exit 1
export PGHOST=/var/lib/postgresql PGUSER=postgres
