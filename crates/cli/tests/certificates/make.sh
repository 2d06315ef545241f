#!/bin/sh
# Makes the certificates of the tests anew: an authority, two it has signed, and one it has not, good for a century; and one whose time is over.
set -e
cd "$(dirname "$0")"
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null || openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
for name in authority proxy client stranger; do key $name.key; done
openssl req -x509 -new -key authority.key -subj "/CN=tests of krarup" -days 36500 -out authority.pem \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
sign() {
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$2" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA authority.pem -CAkey authority.key -CAcreateserial -days 36500 -out "$1.pem" -extfile "$1.ext"
    rm "$1.csr" "$1.ext"
}
sign proxy DNS:localhost,IP:127.0.0.1
sign client DNS:client
openssl req -x509 -new -key stranger.key -subj "/CN=stranger" -days 36500 -out stranger.pem -addext "subjectAltName=DNS:client"
openssl req -new -key proxy.key -subj "/CN=expired" -out expired.csr
openssl x509 -req -in expired.csr -signkey proxy.key -days -1 -out expired.pem
rm -f authority.key authority.srl expired.csr
