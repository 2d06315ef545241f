# Instances at two other addresses, and a name that has both.
command -v jq >/dev/null || failed 'not installed: jq'
for address in 10.0.0.1 10.0.0.2; do
    ip addr add $address/32 dev lo && echo "$address proxies.example" >>/etc/hosts || exit 1
    service "krarup proxy --config proxy.toml --listen $address:11211 --admin $address:9151"
done
of_guide=
