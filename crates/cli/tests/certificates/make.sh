#!/bin/sh
# Makes the certificates of the tests anew: an authority, two it has signed, and one it has not, good for a century; one whose time is over; one of
# X.509 version 1; and an authority with a list of what it has revoked, which is nothing, and one that it has signed. The list is good for 600 days:
# tests ask for the end of 2027 and of 2029.
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
echo basicConstraints=CA:FALSE > expired.ext
openssl x509 -req -in expired.csr -signkey proxy.key -days -1 -out expired.pem -extfile expired.ext
# OpenSSL before 3.2 makes this version where there are no extensions, and knows no flag for it.
openssl req -x509v1 -new -key proxy.key -subj "/CN=localhost" -days 36500 -out version-1.pem 2>/dev/null || {
    openssl req -new -key proxy.key -subj "/CN=localhost" -out version-1.csr
    openssl x509 -req -in version-1.csr -signkey proxy.key -days 36500 -out version-1.pem
}
rm -f authority.key authority.srl expired.csr expired.ext version-1.csr
lists() {
    key lists.key
    openssl req -x509 -new -key lists.key -subj "/CN=lists of krarup" -days 36500 -out lists.pem \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
    openssl req -new -key proxy.key -subj "/CN=listed" -out listed.csr
    printf 'subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n' > listed.ext
    openssl x509 -req -in listed.csr -CA lists.pem -CAkey lists.key -CAcreateserial -days 36500 -out listed.pem -extfile listed.ext
    printf '[ca]\ndefault_ca=own\n[own]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ncrl_extensions=ext\n[ext]\nauthorityKeyIdentifier=keyid\n' > lists.cnf
    : > index
    echo 01 > number
    openssl ca -config lists.cnf -gencrl -crldays 600 -keyfile lists.key -cert lists.pem -out lists.crl
    rm -f lists.key lists.srl lists.cnf listed.csr listed.ext index index.* number number.*
}
lists
