# Two names of hosts, of which the first is this one with a certificate; an address in a file, and a
# service.
export HOME=$PWD
printf '127.0.0.1 localhost db1.example\n127.0.0.2 db2.example\n127.0.0.3 db3.example\n' >/etc/hosts
mkdir -p /etc/krarup
data=/var/lib/postgresql/data
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=authority -keyout ca.key -out /etc/krarup/ca.pem 2>/dev/null &&
    openssl req -newkey rsa:2048 -nodes -subj /CN=db1.example -addext subjectAltName=DNS:db1.example \
        -keyout $data/server.key -out server.csr 2>/dev/null &&
    openssl x509 -req -in server.csr -CA /etc/krarup/ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy \
        -out $data/server.crt 2>/dev/null || failed 'not installed: openssl'
chown postgres: $data/server.key $data/server.crt && chmod 600 $data/server.key
asked -c 'ALTER SYSTEM SET ssl = on' -c 'SELECT pg_reload_conf()' >/dev/null || exit 1
echo 'postgres://krarup@127.0.0.1/queues' >/etc/krarup/store && chmod 600 /etc/krarup/store
printf '[queues]\nhost=db1.example\nuser=krarup\ndbname=queues\n' >.pg_service.conf
