# Servers, and the configuration of a proxy before one of them.
for port in 11212 11213 11214; do service "krarup cache --listen 127.0.0.1:$port"; done
of_guide=
printf 'servers = ["127.0.0.1:11212"]\nhot_keys = "name"\n' >proxy.toml
