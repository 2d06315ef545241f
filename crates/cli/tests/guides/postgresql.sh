# A PostgreSQL at its usual port, and a function that asks it as its first user. What it asks waits
# for no standby.
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
[ -x "$programs/initdb" ] || failed 'not installed: postgresql'
mount -t tmpfs tmpfs /var/lib/postgresql && chown postgres: /var/lib/postgresql || exit 1
as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
as_postgres "$programs/initdb" -A trust -D /var/lib/postgresql/data >initdb.log 2>&1 || failed "$(cat initdb.log)"
as_postgres "$programs/pg_ctl" -D /var/lib/postgresql/data -w -l /var/lib/postgresql/log \
    -o '-k /var/lib/postgresql -c fsync=off' start >initdb.log || failed "$(cat initdb.log)"
asked() { PGOPTIONS='-c synchronous_commit=local' psql -q -v ON_ERROR_STOP=1 -h /var/lib/postgresql -U postgres "$@"; }
sql() {
    asked -d queues -f "$1" 2>refused.txt && return
    grep -q 'database "queues" does not exist' refused.txt || { cat refused.txt; return 1; }
    asked -d postgres -f "$1"
}
